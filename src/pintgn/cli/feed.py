"""`pintgn feed`: events from where they arise into a service, exactly once."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import AsJson, Bar, answer, say
from pintgn.cli.option_groups import grouped
from pintgn.errors import BadFile, BadInput
from pintgn.feed.options import ColumnNames, SourceOptions
from pintgn.formatting import plural, shown_address

EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""


@grouped
def feed(
    source: Annotated[
        str,
        Argument(
            metavar="SOURCE",
            help="A growing file (CSV or JSON lines), kafka://host:port/TOPIC, nats://host:port/STREAM, or "
            "postgresql://…#TABLE.",
        ),
    ],
    service: Annotated[str, Argument(metavar="SERVICE", help="Address of the service, such as http://127.0.0.1:8000.")],
    columns: ColumnNames = ColumnNames(),
    reading: SourceOptions = SourceOptions(),
    once: Annotated[bool, Option("--once", help="Stop at the end of the source instead of waiting for more.")] = False,
    batch: Annotated[int, Option(min=1, max=50_000, help="Maximum number of events in a request.")] = 1_000,
    refused: Annotated[
        Path | None,
        Option(help="Write refused rows to this file; by default the first one stops the feed."),
    ] = None,
    api_key: Annotated[Path | None, Option(help="File with the service's API key (scope write).")] = None,
    set_: Annotated[
        list[str] | None, Option("--set", metavar="NAME=VALUE", help="A setting of librdkafka; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Feed a service from Kafka, NATS JetStream, PostgreSQL or a growing file, exactly once.

    Every event has a key made of its position, so after a kill nothing is lost and nothing counts twice. The feed
    waits for a service that is busy or away.
    """
    from pintgn.feed.client import Client
    from pintgn.feed.endpoints import open_source
    from pintgn.feed.feeder import Feeder
    from pintgn.feed.mapping import ColumnMapping
    from pintgn.feed.refused_rows import RefusedRows

    settings = dict(_setting(text) for text in set_ or [])
    client, path = Client.of(service, read_key(api_key))
    if path.strip("/"):
        raise BadInput(f"{service} has a path; name the service alone, such as http://127.0.0.1:8000.")
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        opened = open_source(source, service.rstrip("/"), reading, settings)
        stack.callback(opened.close)
        aside = None if refused is None else stack.enter_context(contextlib.closing(RefusedRows(refused)))
        line = _Line(stack.enter_context(Bar("feeding")))
        feeder = Feeder(opened, client, ColumnMapping("", "", ""), batch, aside, line)
        with _stopping(feeder):
            status = feeder.ask("GET", "/status")  # None when it was stopped while it waited for the service
            if status is not None:
                code, found = status
                if code != 200:
                    raise BadInput(f"the service refuses: {found['message']} {found.get('next', '')}")
                given = {"src": columns.src, "dst": columns.dst, "t": columns.time, "key": columns.key}
                feeder.columns = ColumnMapping.of(found["data"], given, opened.text)
                feeder.run(once)
    counts = feeder.counts
    facts = {"source": shown_address(source), "service": service} | counts.facts()
    shown = f"{shown_address(source)}: {plural(counts.accepted, 'event')} accepted, {counts.duplicates:,} known already"
    shown += f", {counts.refused:,} refused" + (f" (in {refused})" if counts.refused else "")
    answer(as_json, facts, shown)


def read_key(path: Path | None) -> str | None:
    """The API key in a file."""
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeError) as error:
        raise BadFile(f"cannot read the API key in {path}: {error}.") from None


def _setting(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given or not name.strip():
        raise BadInput(f"--set {text}; write NAME=VALUE, such as security.protocol=SASL_SSL.")
    return name.strip(), value.strip()


@contextlib.contextmanager
def _stopping(feeder: Any) -> Iterator[None]:
    """Ctrl-C or SIGTERM end the feed after the batch that is under way; a second one at once."""

    def stop(number: int, frame: Any) -> None:
        if feeder.stopping.is_set():
            raise KeyboardInterrupt("Interrupted. What was not committed is sent again, and counts once.")
        feeder.stop()

    handled = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Line:
    """One line of progress: drawn anew on a terminal; elsewhere every few seconds, and when waiting begins or ends."""

    def __init__(self, bar: Bar):
        self.bar = bar
        self.shown, self.counted, self.waiting = time.monotonic(), 0, ""

    def __call__(self, counts: Any) -> None:
        now, done = time.monotonic(), counts.accepted + counts.duplicates + counts.refused
        text = f"{done:,} rows, {counts.duplicates:,} known already, {counts.refused:,} refused, {counts.rate:,.0f}/s"
        text += f"; waiting: {counts.waiting_for}" if counts.waiting_for else ""
        self.bar.doing(text)
        terminal = self.bar.terminal.is_terminal
        if not terminal and (counts.waiting_for != self.waiting or (now - self.shown > EVERY and done != self.counted)):
            say(text)
            self.shown, self.counted, self.waiting = now, done, counts.waiting_for
