"""`pintgn backup` and `pintgn restore`: a run and its live events in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from pintgn.cli.common import AsJson, answer, say
from pintgn.cli.evaluation import RunFolder
from pintgn.cli.keys import StoreFolder, store_of
from pintgn.errors import BadInput
from pintgn.formatting import size


def backup(
    run: RunFolder,
    output: Annotated[Path, Option("--output", "-o", help="File to write (.tar).")],
    store: StoreFolder = None,
    as_json: AsJson = False,
) -> None:
    """Back up a run and its live events to one file, also while they are being served.

    Every event and every byte is verified; nothing is written if something is wrong.
    """
    from pintgn.formatting import shown_address
    from pintgn.serve.store_backup import back_up
    from pintgn.serve.stores import is_address

    if store is not None and is_address(store):
        raise BadInput(f"{shown_address(store)} is backed up with PostgreSQL's own tools: pg_dump, or pg_basebackup.")
    made = back_up(run, store_of(run, store), output, say)
    facts = {"output": output} | {name: made[name] for name in ("events", "stored", "dropped", "lost", "bytes")}
    missing = f", {made['lost']:,} are missing" if made["lost"] else ""
    shown = f"{output}: {made['stored']:,} live events{missing}, {len(made['files'])} files, {size(made['bytes'])}"
    answer(as_json, facts | {"files": len(made["files"])}, shown)


def restore(
    file: Annotated[Path, Argument(metavar="FILE", help="A backup that `pintgn backup` wrote.")],
    output: Annotated[Path | None, Option("--output", "-o", help="The run's new folder.")] = None,
    check: Annotated[bool, Option("--check", help="Only verify the backup, and keep nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a run and its live events from a backup, verified by a replay.

    The folder appears only when it is complete, and can be served as it is.
    """
    from pintgn.serve.store_backup import restore

    if check == (output is not None):
        raise BadInput("say where to restore to with -o FOLDER, or only verify with --check.")
    facts = restore(file, output, say)
    shown = f"{file} is whole: {facts['events']:,} live events, up to {facts['clock']}"
    if output is not None:
        shown = f"{output}: {facts['events']:,} live events, up to {facts['clock']}. pintgn serve {output}"
    answer(as_json, facts | {"output": output}, shown)
