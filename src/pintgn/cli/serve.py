"""`pintgn serve`: a trained run over HTTP, with a durable store and a page."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from pintgn.cli.common import AsJson, answer, say
from pintgn.cli.evaluation import RunFolder
from pintgn.cli.option_groups import grouped
from pintgn.errors import BadInput
from pintgn.packages import need
from pintgn.serve.limits import Access, Logs, Options, Tls


@dataclass(frozen=True)
class Instead:
    """Actions on a store instead of serving it."""

    undo_after: Annotated[
        str | None, "Undo all live events later than this time, move them to a table of their own, and exit."
    ] = None
    accept_loss: Annotated[
        int | None,
        "Accept the loss of exactly this many acknowledged events, and exit.",
        {"least": 0},
    ] = None
    export: Annotated[Path | None, "Write the run's log and all live events to this file, to train on, and exit."] = (
        None
    )


@grouped
def serve(
    run: RunFolder,
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8000,
    host: Annotated[
        str, Option(help="Address to listen on. Only this machine by default; others need a key.")
    ] = "127.0.0.1",
    store: Annotated[
        str | None,
        Option(help="Folder of the events and snapshots (RUN/live by default), or postgresql://… to share them."),
    ] = None,
    access: Access = Access(),
    tls: Tls = Tls(),
    options: Options = Options(),
    logs: Logs = Logs(),
    instead: Instead = Instead(),
    device: Annotated[str | None, Option(help="Where to compute: cpu (default), cuda, cuda:1 or mps.")] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a run over HTTP: accept events, answer queries, never lose an acknowledged event.

    Events are on disk before they are acknowledged. A restart continues where the service stopped.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # many small questions: more threads would only wait for each other
    for module in ("uvicorn", "starlette", "msgspec", "prometheus_client"):
        need(module, extra="serve")
    from pintgn.serve.api_keys import Keys, add_key, hold_to
    from pintgn.serve.http_server import check_certificate
    from pintgn.serve.journal import write_logs
    from pintgn.serve.middleware import is_local
    from pintgn.serve.service import Service
    from pintgn.serve.stores import home_of, is_address

    folder, where = home_of(run, store), store or run / "live"
    if options.follow and (instead.accept_loss is not None or instead.undo_after):
        raise BadInput("--follow only reads; --accept-loss and --undo-after change the store. Leave it out.")
    if access.new_key + access.without_keys + (access.key_file is not None) > 1:
        raise BadInput("--key-file, --new-key and --without-keys exclude each other; choose one.")
    if logs.format not in ("text", "json"):
        raise BadInput(f"--log-format {logs.format}; it is text or json.")
    check_certificate(tls)
    write_logs(logs)
    keys = Keys.of_store(folder) if access.key_file is None else Keys.of_file(access.key_file)
    if not keys and not access.new_key and not is_local(host):
        raise BadInput(f"--host {host} accepts other machines. Require a key: add --new-key or --key-file PATH.")
    options = in_units(options, run)
    if instead.export is not None and is_address(where):  # which can be read beside its writer
        options = replace(options, follow=True)
    if instead.undo_after is not None:
        _undo(run, where, instead.undo_after, as_json)
        return
    if instead.accept_loss is not None:
        _accept(run, where, instead.accept_loss, as_json)
        return
    with Service.open(run, where, options, progress=say, device=device) as service:
        for report in service.reports:
            say(f"note: {report}")
        if warning := service.live.retention.warning(service.run.model):
            say(f"note: {warning}")
        if instead.export is not None:
            _export(service, instead.export, as_json)
            return
        if access.new_key:  # now that the store is ours
            text, keys = add_key(folder, "default", renew=True), Keys.of_store(folder)
            answer(as_json, {"key": text}, f"API key (shown only now): {text}")
        hold_to(keys, service, access.without_keys)
        _listen(service, keys, host, port, as_json, tls)


def in_units(options: Options, run: Path) -> Options:
    """Lengths of time, as text, in the unit of the run's log."""
    from pintgn.events.moment import read_duration
    from pintgn.events.store import saved_schema
    from pintgn.learn.folder import Folder

    log = Folder(run).events
    given = {name: text for name in ("window", "lateness", "max_ahead") if (text := getattr(options, name)) is not None}
    changed: dict[str, Any] = dict.fromkeys(given)
    if given and log.exists():
        changed = {name: read_duration(text, saved_schema(log).time) for name, text in given.items()}
    return replace(options, **changed)


def _undo(run: Path, where: str | Path, after: str, as_json: bool) -> None:
    from pintgn.formatting import shown_address
    from pintgn.serve.journal import note_action
    from pintgn.serve.recovery import undo_after

    done, folder = undo_after(_stored(run, where), where, after), shown_address(str(where))
    note_action("undo-after", {"after": after} | done)
    shown = f"{folder}: no live event is later than {after}; nothing was changed"
    if done["table"] is not None:
        shown = (
            f"{folder}: {done['undone']:,} events later than {after} (numbers {done['first']:,} to {done['last']:,}) "
            f"were moved to the table {done['table']}, {len(done['snapshots'])} snapshots dropped; "
            f"{done['left']:,} left"
        )
    answer(as_json, done, shown)


def _accept(run: Path, where: str | Path, count: int, as_json: bool) -> None:
    from pintgn.formatting import shown_address
    from pintgn.serve.journal import note_action
    from pintgn.serve.recovery import accept_loss

    done, folder = accept_loss(_stored(run, where), where, count), shown_address(str(where))
    note_action("accept-loss", done)
    shown = f"{folder}: nothing is missing"
    if done["lost"]:
        shown = f"{folder}: goes on without {done['lost']:,} events, of which {done['first']:,} is the first"
    answer(as_json, done, f"{shown}; the next event will be number {done['events'] + 1:,}")


def _stored(run: Path, where: str | Path) -> Any:
    """The run whose store is to be changed."""
    from pintgn.learn.run import Run
    from pintgn.serve.stores import is_address

    if not is_address(where) and not Path(where).exists():
        raise BadInput(f"there is no store in {where}. Name it with --store.")
    return Run.open(run)


def _export(service: Any, path: Path, as_json: bool) -> None:
    from pintgn.ingest.read import write_events
    from pintgn.serve.export import full_log

    log = full_log(service.live, service.store)
    write_events(log, path)
    facts = {"output": path, "events": len(log), "live_events": service.store.total}
    answer(as_json, facts, f"{path}: {log!r}, {service.store.total:,} of them live")


def _listen(service: Any, keys: Any, host: str, port: int, as_json: bool, tls: Tls) -> None:
    from pintgn.serve.api import create_app
    from pintgn.serve.http_server import Server, bound_socket
    from pintgn.serve.middleware import is_local

    sys.setswitchinterval(0.0005)  # a question must not wait until a long loop elsewhere pauses
    app = create_app(service, keys, ("localhost", host.strip("[]")) if is_local(host) else None)
    with bound_socket(host, port) as bound:
        name = f"[{host}]" if ":" in host else host
        address = f"http{'s' if tls.cert else ''}://{name}:{bound.getsockname()[1]}"
        ends = f"kill {os.getpid()}" if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else "Ctrl-C"
        facts = {"address": address, "events": service.live.events, "clock": service.live.clock, "role": service.role}
        if service.role != "writer":
            say(f"note: this service is a {service.role}; another one writes to {service.store.name}")
        answer(as_json, facts, f"{service.live!r}\n{address}  ({ends} stops; nothing acknowledged is lost)")
        sys.stdout.flush()
        Server(app, service.limits, tls).run(sockets=[bound])
    say("stopping: writing a snapshot")
