"""What an address names: a source of events, or a place for predictions. The one table of both."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pintgn.errors import BadInput, suggest
from pintgn.feed.sink import Sink, Webhook
from pintgn.feed.source import Bookmark, Source
from pintgn.formatting import ADDRESS, shown_address


@dataclass
class Asked:
    """What a user says about a source beside its address."""

    service: str
    name: str | None = None
    bookmark: Path | None = None
    increasing: str | None = None
    kind: str | None = None
    delimiter: str | None = None
    from_start: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    def open_bookmark(self, source: str, default: Path) -> Bookmark:
        return Bookmark(self.bookmark or default, source, self.service)


def open_source(address: str, asked: Asked) -> Source:
    """The source that an address names."""
    found = ADDRESS.match(address)
    if found is None:
        from pintgn.feed.growing import FileSource

        path = Path(address).expanduser()
        bookmark = asked.open_bookmark(str(path.absolute()), path.with_name(f"{path.name}.bookmark"))
        return _closing(bookmark, FileSource, path, bookmark, asked.kind, asked.delimiter, asked.from_start, asked.name)
    scheme = found[1].lower()
    if scheme not in SOURCES:
        known = ["a file", *(f"{one}://" for one in SOURCES)]
        raise BadInput(f"{scheme}:// is no source of events.{suggest(f'{scheme}://', known)}")
    return SOURCES[scheme](address, asked)


def _postgres(address: str, asked: Asked) -> Source:
    from pintgn.feed.postgres import PostgresSource

    base, _, table = address.partition("#")
    if not table or asked.increasing is None:
        raise BadInput(
            "name the table, and its column that only grows: 'postgresql://ann@host/shop#orders' --increasing id "
            "(or a query behind the '#')."
        )
    default = Path(f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', asked.name or table)[:60]}.bookmark")
    bookmark = asked.open_bookmark(f"{shown_address(base)}#{table}", default)
    return _closing(bookmark, PostgresSource, base, table, asked.increasing, bookmark, asked.from_start, asked.name)


def _kafka(address: str, asked: Asked) -> Source:
    from pintgn.feed.kafka import KafkaSource

    brokers, topic = _host_and_name(address, "topic")
    return KafkaSource(brokers, topic, asked.name or "pintgn", asked.settings, asked.from_start)


def _nats(address: str, asked: Asked) -> Source:
    from pintgn.feed.nats import NatsSource

    host, stream = _host_and_name(address, "stream")
    bookmark = asked.open_bookmark(f"nats://{host.rpartition('@')[2]}/{stream}", Path(f"{stream}.bookmark"))
    subject = parse_qs(urlsplit(address).query).get("subject", [None])[0]
    return _closing(bookmark, NatsSource, f"nats://{host}", stream, bookmark, subject, asked.from_start)


def _closing(bookmark: Bookmark, made: Callable[..., Source], *given: Any) -> Source:
    try:
        return made(*given)
    except BaseException:
        bookmark.close()
        raise


def _host_and_name(address: str, what: str) -> tuple[str, str]:
    parts = urlsplit(address)
    name = parts.path.strip("/")
    if not parts.netloc or not name or "/" in name:
        raise BadInput(f"{shown_address(address)} names no {what}: write {parts.scheme}://host:port/{what.upper()}.")
    return parts.netloc, name


SOURCES: dict[str, Callable[[str, Asked], Source]] = {
    "kafka": _kafka,
    "nats": _nats,
    "postgresql": _postgres,
    "postgres": _postgres,
}


def open_sink(address: str, settings: dict[str, str]) -> Sink:
    """The place for predictions that an address names."""
    scheme = address.partition("://")[0].lower()
    if scheme in ("http", "https"):
        return Webhook(address)
    if scheme == "kafka":
        from pintgn.feed.kafka import KafkaSink

        return KafkaSink(*_host_and_name(address, "topic"), settings)
    if scheme == "nats":
        from pintgn.feed.nats import NatsSink

        host, subject = _host_and_name(address, "subject")
        return NatsSink(f"nats://{host}", subject)
    raise BadInput(
        f"--to {shown_address(address)}; predictions go to http(s)://, kafka://host/TOPIC or nats://host/SUBJECT."
    )
