"""`pintgn predict`, `recommend`, `embed` and `explain`: a trained run at work, in users' own ids."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import STDOUT, AsJson, Bar, Overwrite, answer, check_output, emit_json, say
from pintgn.cli.evaluate import RunFolder
from pintgn.errors import BadFile, BadInput, suggest
from pintgn.formatting import plural, shown_address, text_table

Observe = Annotated[
    list[str] | None,
    Option(help="File of newer events to observe first; may be repeated, in order of time."),
]
At = Annotated[
    str | None, Option(help="As of when: a time in the log's unit, or a date; after the newest event by default.")
]


def predict(
    run: RunFolder,
    pairs: Annotated[
        str,
        Argument(metavar="PAIRS", help="A CSV, JSON-lines or Parquet file, a row for each pair; - for standard input."),
    ],
    observe: Observe = None,
    src: Annotated[str | None, Option(help="Column of the source ids; as in the run's log by default.")] = None,
    dst: Annotated[str | None, Option(help="Column of the destination ids.")] = None,
    time: Annotated[str | None, Option("--time", "-t", help="Column of the times, if there is one.")] = None,
    at: At = None,
    against: Annotated[
        str, Option(help="What links are told from: anyone (a random destination), or known (two that met before).")
    ] = "anyone",
    output: Annotated[
        Path | None, Option("--output", "-o", help="Output file, .csv or .parquet; printed by default.")
    ] = None,
    overwrite: Overwrite = False,
    delimiter: Annotated[str | None, Option(help="Separator of the columns of PAIRS; detected by default.")] = None,
    charset: Annotated[str, Option(help="Encoding of PAIRS, such as latin-1.")] = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Predict how likely each pair is: a logit, a probability, and flags for ids never seen.

    The probability is that of the pair against one random destination (or, with --against known, against one pair that
    met before), calibrated on validation. It is no forecast: for that, see next_probability of recommend.
    """
    from pintgn.live.predict import predict as score

    output = table_output(output, overwrite)
    live = open_live(run, observe)
    table = score(live, pairs, src=src, dst=dst, t=time, at=at, against=against, delimiter=delimiter, charset=charset)
    note_flags(table)
    give_table(table, output, as_json, {"run": run}, "pairs")


def recommend(
    run: RunFolder,
    src: Annotated[list[str] | None, Option(metavar="ID", help="A source; may be repeated.")] = None,
    src_file: Annotated[str | None, Option(metavar="FILE", help="A table with a column of sources.")] = None,
    everyone: Annotated[bool, Option("--all", help="Every source there is.")] = False,
    k: Annotated[int, Option("-k", "--count", help="Number of destinations of each source.")] = 10,
    among: Annotated[
        list[str] | None, Option(metavar="ID", help="Choose only among these destinations; may be repeated.")
    ] = None,
    among_file: Annotated[str | None, Option(metavar="FILE", help="A table with a column of destinations.")] = None,
    exclude_met: Annotated[bool, Option("--exclude-met", help="Leave out whom the source has met before.")] = False,
    active_since: Annotated[
        str | None, Option(metavar="TIME", help="Leave out destinations without an event since then.")
    ] = None,
    at: At = None,
    observe: Observe = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Output file, .csv or .parquet; printed by default.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """List the most likely destinations of sources, best first.

    next_probability: that it is the next, of all destinations ranked. probability: that of this link against one random
    destination. Both are calibrated on validation.
    """
    if sum((bool(src), src_file is not None, everyone)) != 1:
        raise BadInput("say whose destinations: --src ID (once or more), --src-file FILE, or --all.")
    if among and among_file is not None:
        raise BadInput("--among and --among-file cannot both be given.")
    to_stdout, output = output == STDOUT, table_output(output, overwrite)
    live = open_live(run, observe)
    sources = "all" if everyone else ids_of(live, src, src_file, "src")
    chosen = None if among is None and among_file is None else ids_of(live, among, among_file, "dst")
    if len(sources) == 1:
        note_unseen(live, sources[0])
    with Bar("ranking", "sources") as bar:
        table = live.recommend_many(
            sources, k, at, chosen, exclude_met=exclude_met, active_since=active_since, progress=bar
        )
    note_flags(table)
    if len(sources) == 1 and output is None and not (as_json or to_stdout):
        columns = ["next_probability", "probability", "logit"]
        shown = zip(table[live.schema.dst].to_pylist(), *(table[name].to_pylist() for name in columns), strict=True)
        rows = [
            [str(dst), f"{100 * first:.1f} %", f"{second:.4f}", f"{logit:.3f}"] for dst, first, second, logit in shown
        ]
        heads = ["dst", "next", "against one random", "logit"]
        answer(False, {}, text_table(heads, rows))
        return
    give_table(table, output, as_json, {"run": run}, "recommended")


def ids_of(live: Any, given: list[str] | None, path: str | None, role: str) -> list[Any]:
    """Ids from the command line, or from a column of a table: that of the run's log, `src` or `dst`, `id`, or the only
    one."""
    if path is None:
        return [live.codec.id_from_text(one) for one in given or []]
    from pintgn.events.sources import open_source
    from pintgn.live.predict import ids_in

    usual = [getattr(live.schema, role), role, "id"]
    source = open_source(path, usual[:1])
    name = next((one for one in usual if one in source.names), source.names[0] if len(source.names) == 1 else usual[0])
    return list(dict.fromkeys(ids_in(live, source, source.column(name))))


def embed(
    run: RunFolder,
    output: Annotated[
        Path | None, Option("--output", "-o", help="A .parquet or .npz file; RUN/embeddings.parquet by default.")
    ] = None,
    overwrite: Overwrite = False,
    at: At = None,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Write an embedding of every node as of a time, as Parquet columns or NumPy arrays: id, (side,) embedding."""
    if output is not None:
        check_output(output, overwrite)
    output = output or run / "embeddings.parquet"
    if output.suffix not in (".parquet", ".pq", ".npz"):
        raise BadInput(f"{output} does not end in .parquet or .npz; embeddings are written as Parquet or NumPy arrays.")
    live = open_live(run, observe)
    ids, matrix = live.embed(at=at)
    sides = [("src", "dst")[side] for side in live.names.sides] if live.names.separate_namespaces else None
    write_embeddings(live, ids, matrix, sides, output)
    facts = {"run": run, "output": output, "nodes": len(ids), "width": matrix.shape[1]}
    answer(as_json, facts, f"{output}: {len(ids):,} nodes, {matrix.shape[1]} numbers each")


def write_embeddings(live: Any, ids: list[Any], matrix: Any, sides: list[str] | None, path: Path) -> None:
    """Ids and embeddings by the ending of the name; whole or not at all."""
    import numpy as np
    import pyarrow as pa

    from pintgn.events.store import writing_table

    if path.suffix == ".npz":
        names = np.array(ids, str) if live.codec.text else pa.array(ids, live.names.type).to_numpy()
        arrays = {"id": names, "embedding": matrix}
        with writing_table(path) as part, open(part, "wb") as file:
            np.savez(file, **arrays | ({} if sides is None else {"side": np.array(sides)}))
        return
    values = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    columns: dict[str, Any] = {"id": pa.array(ids, live.names.type), "embedding": values}
    write_table(pa.table(columns | ({} if sides is None else {"side": pa.array(sides)})), path)


def explain(
    run: RunFolder,
    src: Annotated[str, Argument(metavar="SRC", help="The source.")],
    dst: Annotated[str, Argument(metavar="DST", help="The destination.")],
    at: At = None,
    steps: Annotated[int, Option(help="Longest walks to list, 1 to 3.")] = 3,
    limit: Annotated[int, Option(help="Number of reasons of each kind.")] = 5,
    replay: Annotated[
        bool, Option("--replay", help="Undo memory updates as well, by replaying the log for each reason. Slow.")
    ] = False,
    everything: Annotated[bool, Option("--all", help="List every reason, not only the main three.")] = False,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Explain the score of a pair: what joins the two nodes, and the score without it, what matters most first.

    With --all, every walk that joins them. Walks go back in time: each step is an earlier contact than the one before.
    `logit without` is the model's score if those contacts had never happened; in brackets, what they add to the score.
    """
    live = open_live(run, observe)
    ends = (live.codec.id_from_text(src), live.codec.id_from_text(dst))
    with Bar("replaying without each reason" if replay else "explaining") as bar:
        found = live.explain(*ends, at, steps=steps, limit=limit, replay=replay, progress=bar)
    answer(as_json, {"run": run, **found.as_dict()}, found.details() if everything else found)


def open_live(run: Path, observe: list[str] | None) -> Any:
    """The live state of a run, after observing newer events."""
    from pintgn.live.live import open as open_run

    live = open_run(run)
    for path in observe or []:
        shown = shown_address(path) if "://" in path else path
        try:
            count = live.observe(path)
        except (BadInput, BadFile) as error:
            raise type(error)(f"{error}{_convert_first(live, shown, str(error))}") from error
        say(f"observed {plural(count, 'event')} of {shown}")
    return live


def _convert_first(live: Any, path: str, error: str) -> str:
    """The command that converts a file, where the error suggests a reading option that this command does not have."""
    wanted = re.findall(r"\((--(?:sort|charset [\w-]+))\)", error)
    if not wanted:
        return ""
    schema = live.schema
    columns = {"--src": schema.src, "--dst": schema.dst, "--time": schema.t, "--time-format": schema.time.written}
    if schema.features:
        columns["--features"] = ",".join(feature.name for feature in schema.features)
    flags = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in columns.items() if value)
    return f" Here: pintgn data convert {shlex.quote(path)} {flags} {' '.join(wanted)} -o later.parquet"


def note_unseen(live: Any, id: Any, side: int = 0) -> None:
    """Say that an id has never been seen: it is a new node, or a typing error."""
    if id not in live.names.numbers[side]:
        near = suggest(id, live.names.ids[:50_000]) if live.codec.text else ""
        say(f"note: {id!r} has never been seen, and counts as a new node.{near if 'Did' in near else ''}")


def note_flags(table: Any) -> None:
    """Say how many rows are flagged, and why."""
    import pyarrow.compute as pc

    for one in pc.value_counts(table["flags"].combine_chunks()).to_pylist():
        if one["values"]:
            say(f"note: {plural(one['counts'], 'row')} flagged: {one['values']}")


TABLES = (".csv", ".parquet", ".pq")
"""Endings of the files that tables are written to."""


def table_output(output: Path | None, overwrite: bool) -> Path | None:
    """The file that a table goes to, None for standard output; refused before any work is done."""
    if output is None or output == STDOUT:
        return None
    if output.suffix not in TABLES:
        raise BadInput(f"{output} ends in neither .csv nor .parquet.")
    check_output(output, overwrite)
    return output


def give_table(table: Any, output: Path | None, as_json: bool, facts: dict[str, Any], name: str) -> None:
    """A table as the answer: in a file, as JSON, or as CSV on stdout."""
    if output is not None:
        write_table(table, output)
        say(f"{output}: {plural(table.num_rows, 'row')}")
    elif as_json:
        emit_json(facts | {name: table.to_pylist()})
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, sys.stdout.buffer)


def write_table(table: Any, path: Path) -> None:
    """Write a table by the ending of its name; whole or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    from pintgn.events.store import writing_table

    write = pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table
    with writing_table(path) as part:
        write(table, part)
