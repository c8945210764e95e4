"""The source of events that an address names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pintgn.errors import BadInput, suggest
from pintgn.feed.options import SourceOptions
from pintgn.feed.stream_source import Bookmark, Source
from pintgn.formatting import ADDRESS, shown_address

SOURCES = ("kafka", "nats", "postgresql", "postgres")


def open_source(address: str, service: str, options: SourceOptions, settings: dict[str, str]) -> Source:
    """The source that an address names, to be fed into a service.

    Args:
        settings: of librdkafka, for a topic of Kafka.
    """
    found = ADDRESS.match(address)
    scheme = "" if found is None else found[1].lower()
    from_start, name = options.from_start, options.name
    if scheme == "kafka":
        from pintgn.feed.kafka import KafkaSource

        return KafkaSource(*_host_and_name(address, "topic"), name or "pintgn", settings, from_start)

    def open_with(source: str, bookmark: Path, made: Callable[[Bookmark], Source]) -> Source:
        kept = Bookmark(options.bookmark or bookmark, source, service)
        try:
            return made(kept)
        except BaseException:
            kept.close()
            raise

    if found is None:
        from pintgn.feed.file_tail import FileSource

        path = Path(address).expanduser()
        return open_with(
            str(path.absolute()),
            path.with_name(f"{path.name}.bookmark"),
            lambda kept: FileSource(path, kept, options.kind, options.delimiter, from_start, name),
        )
    if scheme == "nats":
        from pintgn.feed.nats import NatsSource

        host, stream = _host_and_name(address, "stream")
        subject = parse_qs(urlsplit(address).query).get("subject", [None])[0]
        return open_with(
            f"nats://{host.rpartition('@')[2]}/{stream}",
            Path(f"{stream}.bookmark"),
            lambda kept: NatsSource(f"nats://{host}", stream, kept, subject, from_start),
        )
    if scheme not in SOURCES:
        known = ["a file", *(f"{one}://" for one in SOURCES)]
        raise BadInput(f"{scheme}:// is no source of events.{suggest(f'{scheme}://', known)}")
    from pintgn.feed.postgres_table import PostgresSource

    base, _, table = address.partition("#")
    increasing = options.increasing
    if not table or increasing is None:
        raise BadInput(
            "name the table, and its column that only grows: 'postgresql://ann@host/shop#orders' --increasing id "
            "(or a query behind the '#')."
        )
    return open_with(
        f"{shown_address(base)}#{table}",
        Path(f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name or table)[:60]}.bookmark"),
        lambda kept: PostgresSource(base, table, increasing, kept, from_start, name),
    )


def _host_and_name(address: str, what: str) -> tuple[str, str]:
    parts = urlsplit(address)
    name = parts.path.strip("/")
    if not parts.netloc or not name or "/" in name:
        raise BadInput(f"{shown_address(address)} names no {what}: write {parts.scheme}://host:port/{what.upper()}.")
    return parts.netloc, name
