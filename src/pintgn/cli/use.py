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
from pintgn.formatting import plural, text_table

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
    """Predict how likely each pair is: a logit, and a probability calibrated on validation."""
    from pintgn.live.predict import predict as score

    output = None if output == STDOUT else output
    if output is not None:
        check_output(output, overwrite)
    live = open_live(run, observe)
    table = score(live, pairs, src=src, dst=dst, t=time, at=at, against=against, delimiter=delimiter, charset=charset)
    if output is not None:
        write_table(table, output)
        say(f"{output}: {plural(table.num_rows, 'row')}")
    elif as_json:
        emit_json({"run": run, "pairs": table.to_pylist()})
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, sys.stdout.buffer)


def recommend(
    run: RunFolder,
    src: Annotated[str, Option(help="The source.")],
    k: Annotated[int, Option("-k", "--count", help="Number of destinations.")] = 10,
    at: At = None,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """List the most likely destinations of a source, best first."""
    live = open_live(run, observe)
    note_unseen(live, live.codec.id_from_text(src))
    found = live.recommend(live.codec.id_from_text(src), k, at)
    rows = [[str(one.dst), f"{one.probability:.4f}", f"{one.logit:.3f}"] for one in found]
    facts = {"run": run, "src": src, "recommended": [one._asdict() for one in found]}
    answer(as_json, facts, text_table(["dst", "probability", "logit"], rows))


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
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Explain the score of a pair: the walks that join the two nodes, and the score without each.

    Walks go back in time: each step is an earlier contact than the one before. `logit without` is the model's score if
    those contacts had never happened; in brackets, what they add to the score as it is.
    """
    live = open_live(run, observe)
    ends = (live.codec.id_from_text(src), live.codec.id_from_text(dst))
    with Bar("replaying without each reason" if replay else "explaining") as bar:
        found = live.explain(*ends, at, steps=steps, limit=limit, replay=replay, progress=bar)
    answer(as_json, {"run": run, **found.as_dict()}, found)


def open_live(run: Path, observe: list[str] | None) -> Any:
    """The live state of a run, after observing newer events."""
    from pintgn.live.live import open as open_run

    live = open_run(run)
    for path in observe or []:
        try:
            count = live.observe(path)
        except (BadInput, BadFile) as error:
            raise type(error)(f"{error}{_convert_first(live, path, str(error))}") from error
        say(f"observed {plural(count, 'event')} of {path}")
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


def write_table(table: Any, path: Path) -> None:
    """Write a table by the ending of its name; whole or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    from pintgn.events.store import writing_table

    writers = {
        ".csv": pyarrow.csv.write_csv,
        ".parquet": pyarrow.parquet.write_table,
        ".pq": pyarrow.parquet.write_table,
    }
    if path.suffix not in writers:
        raise BadInput(f"{path} ends in neither .csv nor .parquet.")
    with writing_table(path) as part:
        writers[path.suffix](table, part)
