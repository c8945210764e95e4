"""`pintgn serve`: a trained run over HTTP, with a durable store and a page."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from pintgn.cli.common import AsJson, answer, say
from pintgn.cli.evaluate import RunFolder
from pintgn.errors import BadInput


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
    follow: Annotated[
        bool, Option("--follow", help="Only answer, beside the service that writes to the same PostgreSQL store.")
    ] = False,
    key_file: Annotated[
        Path | None, Option(help="File with the API key that clients must send, instead of those of `pintgn keys`.")
    ] = None,
    new_key: Annotated[
        bool, Option("--new-key", help="Create the API key `default`, for everything, and print it once.")
    ] = False,
    without_keys: Annotated[
        bool, Option("--without-keys", help="Let in whoever reaches it from now on, though it was served with keys.")
    ] = False,
    tls_cert: Annotated[
        Path | None, Option(help="Certificate (PEM, with its chain): serve HTTPS. SIGHUP reads it again.")
    ] = None,
    tls_key: Annotated[Path | None, Option(help="The certificate's private key (PEM).")] = None,
    snapshot_every: Annotated[int, Option(min=1, help="Events between two snapshots.")] = 100_000,
    keep_last: Annotated[
        int | None, Option(min=1, help="Keep only this many newest contacts of each node in memory.")
    ] = None,
    window: Annotated[
        str | None, Option(help="Keep only contacts this recent in memory: P30D, PT1H, or a number in the log's unit.")
    ] = None,
    keep_events: Annotated[
        int | None,
        Option(min=0, help="Keep about this many newest events in the store, and all that no snapshot holds."),
    ] = None,
    lateness: Annotated[
        str | None,
        Option(help="Let events wait this long for earlier ones, then observe them in order: 10m, or a number."),
    ] = None,
    max_ahead: Annotated[
        str | None,
        Option(
            help="Refuse an event this long after the one before it: P1D, or a number in the log's unit; inf allows "
            "any. A hundred times the span of the run's log by default."
        ),
    ] = None,
    evaluate_every: Annotated[
        int, Option(min=0, help="Score every n-th event just before it is observed; 0 for none.")
    ] = 10,
    log_format: Annotated[str, Option(help="How lines on stderr look: text or json.")] = "text",
    log_requests: Annotated[bool, Option("--log-requests", help="Log every request.")] = False,
    audit: Annotated[
        Path | None, Option(help="Append who sent events, looked after the service or was refused to this file.")
    ] = None,
    compact: Annotated[
        bool, Option("--compact", help="Drop stored events that every snapshot holds, and exit.")
    ] = False,
    undo_after: Annotated[
        str | None,
        Option(help="Undo all live events later than this time, move them to a file beside the store, and exit."),
    ] = None,
    accept_loss: Annotated[
        int | None,
        Option(min=0, help="Go on without the acknowledged events that a store has lost, which are so many, and exit."),
    ] = None,
    export: Annotated[
        Path | None, Option(help="Write the run's log and all live events to this file, to train on, and exit.")
    ] = None,
    device: Annotated[str | None, Option(help="Where to compute: cpu (default), cuda, cuda:1 or mps.")] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a run over HTTP: accept events, answer queries, never lose an acknowledged event.

    Events are on disk before they are acknowledged. A restart continues where the service stopped.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # many small questions: more threads would only wait for each other
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise BadInput("serving needs FastAPI and uvicorn. Install them: pip install 'pintgn[serve]'.") from None
    from pintgn.serve.auth import is_local
    from pintgn.serve.connections import check_certificate
    from pintgn.serve.journal import note_action, write_logs
    from pintgn.serve.keys import Keys, add_key, hold_to
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service
    from pintgn.serve.stores import home_of, is_address

    folder, where = home_of(run, store), store or run / "live"
    if follow and (compact or accept_loss is not None or undo_after):
        raise BadInput("--follow only reads; --compact, --accept-loss and --undo-after change the store. Leave it out.")
    if key_file is not None and new_key:
        raise BadInput("--key-file and --new-key exclude each other; choose one.")
    if without_keys and (new_key or key_file is not None):
        raise BadInput("--without-keys excludes --new-key and --key-file; choose one.")
    if log_format not in ("text", "json"):
        raise BadInput(f"--log-format {log_format}; it is text or json.")
    check_certificate(tls_cert, tls_key)
    write_logs(log_format == "json", log_requests, audit)
    keys = None if new_key else Keys.of_store(folder) if key_file is None else Keys.of_file(key_file)
    if not keys and not new_key and not is_local(host):
        raise BadInput(f"--host {host} accepts other machines. Require a key: add --new-key or --key-file PATH.")
    options = Options(
        snapshot_every=snapshot_every,
        keep_last=keep_last,
        window=_length(run, window),
        keep_events=keep_events,
        evaluate_every=evaluate_every,
        lateness=_length(run, lateness),
        max_ahead=_length(run, max_ahead),
        follow=follow or (export is not None and is_address(where)),  # which can be read beside its writer
    )
    if undo_after is not None:
        _undo(run, where, undo_after, as_json)
        return
    if accept_loss is not None:
        _accept(run, where, accept_loss, as_json)
        return
    with Service.open(run, where, options, progress=say, device=device) as service:
        for report in service.reports:
            say(f"note: {report}")
        if warning := service.live.retention.warning(service.run.model):
            say(f"note: {warning}")
        if compact:
            gone = service.compact()
            facts = {"dropped": gone, "bytes": service.store.nbytes, "events": service.store.total}
            note_action("compact", facts)
            answer(
                as_json, facts, f"{service.store.name}: {gone:,} events dropped, {service.store.nbytes:,} bytes left"
            )
            return
        if export is not None:
            _export(service, export, as_json)
            return
        if new_key:  # now that the store is ours
            text, keys = add_key(folder, "default", renew=True), Keys.of_store(folder)
            answer(as_json, {"key": text}, f"API key (shown only now): {text}")
        assert keys is not None
        hold_to(keys, service, without_keys)
        _listen(service, keys, host, port, as_json, tls_cert, tls_key)


def _length(run: Path, text: str | None) -> float | None:
    """A length of time in the unit of the run's log."""
    if text is None:
        return None
    from pintgn.events.moment import read_duration
    from pintgn.events.store import saved_schema
    from pintgn.learn.folder import Folder

    log = Folder(run).events
    return read_duration(text, saved_schema(log).time) if log.exists() else None


def _undo(run: Path, where: str | Path, after: str, as_json: bool) -> None:
    from pintgn.formatting import shown_address
    from pintgn.serve.journal import note_action
    from pintgn.serve.recovery import undo_after

    done, folder = undo_after(_stored(run, where), where, after), shown_address(str(where))
    note_action("undo-after", {"after": after} | done)
    shown = f"{folder}: no live event is later than {after}; nothing was changed"
    if done["file"] is not None:
        shown = (
            f"{folder}: {done['undone']:,} events later than {after} (numbers {done['first']:,} to {done['last']:,}) "
            f"were moved to {done['file']}, {len(done['snapshots'])} snapshots dropped; {done['left']:,} left"
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
    from pintgn.serve.export import whole_log

    log = whole_log(service.live, service.store)
    write_events(log, path)
    facts = {"output": path, "events": len(log), "live_events": service.store.total}
    answer(as_json, facts, f"{path}: {log!r}, {service.store.total:,} of them live")


def _listen(
    service: Any, keys: Any, host: str, port: int, as_json: bool, tls_cert: Path | None, tls_key: Path | None
) -> None:
    import socket

    from pintgn.serve.app import create_app
    from pintgn.serve.auth import is_local
    from pintgn.serve.connections import Server

    sys.setswitchinterval(0.0005)  # a question must not wait until a long loop elsewhere pauses
    hosts = ("localhost", host.strip("[]")) if is_local(host) else None
    app = create_app(service, keys, hosts)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, or asyncio leaves Nagle's algorithm on and every answer waits 40 ms for an acknowledgement
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.listen(128)  # before the address is printed
    except OSError as error:
        bound.close()
        raise BadInput(f"cannot listen at {host}:{port}: {error.strerror}. Choose another --port.") from None
    with bound:
        address = (
            f"http{'s' if tls_cert else ''}://{'[' + host + ']' if ':' in host else host}:{bound.getsockname()[1]}"
        )
        ends = f"kill {os.getpid()}" if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else "Ctrl-C"
        facts = {"address": address, "events": service.live.events, "clock": service.live.clock, "role": service.role}
        if service.role != "writer":
            say(f"note: this service is a {service.role}; another one writes to {service.store.name}")
        shown = f"{service.live!r}\n{address}  ({ends} stops; nothing acknowledged is lost)"
        answer(as_json, facts, shown)
        sys.stdout.flush()
        _run_until_signal(Server(app, service.limits, ssl_certfile=tls_cert, ssl_keyfile=tls_key), bound)
    say("stopping: writing a snapshot")


def _run_until_signal(server: Any, bound: Any) -> None:
    """Run until Ctrl-C or SIGTERM, and come back: uvicorn would let the signal end the process, with no snapshot.

    A signal that is ignored stays so: `nohup`, or a script that puts us in the background, wants it that way.
    """
    server.capture_signals = contextlib.nullcontext
    handled = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, server.handle_exit) for number in handled}
    if server.config.is_ssl and hasattr(signal, "SIGHUP"):
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: server.reload_certificate())
    try:
        server.run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
