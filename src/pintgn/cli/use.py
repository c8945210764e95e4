"""`pintgn predict`, `recommend`, `embed` and `explain`: a trained run at work, in users' own ids."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import STDOUT, AsJson, Bar, Overwrite, answer, check_output, emit_json, say
from pintgn.cli.evaluation import RunFolder
from pintgn.errors import BadFile, BadInput, suggest
from pintgn.formatting import plural, shown_address, text_table

On = Annotated[str, Option(help="Where answers are computed: local, in this process; or ray, on a Ray cluster.")]
Observe = Annotated[
    list[str] | None,
    Option(help="File of newer events to observe first; may be repeated, in order of time."),
]
At = Annotated[
    str | None, Option(help="Time of the query: in the log's unit, or a date; after the newest event by default.")
]
Table = Annotated[Path | None, Option("--output", "-o", help="Output file, .csv or .parquet; printed by default.")]
ByRelation = Annotated[
    str | None,
    Option(
        "--relation",
        metavar="WORD",
        help="Relation, for a run trained with --relation; ^ before it means its inverse.",
    ),
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
        str, Option(help="What links are compared with: anyone (a random destination), or known (two that met before).")
    ] = "anyone",
    output: Table = None,
    overwrite: Overwrite = False,
    delimiter: Annotated[str | None, Option(help="Separator of the columns of PAIRS; detected by default.")] = None,
    charset: Annotated[str, Option(help="Encoding of PAIRS, such as latin-1.")] = "utf-8",
    on: On = "local",
    as_json: AsJson = False,
) -> None:
    """Predict how likely each pair is: a logit, a probability, and notes on ids never seen.

    The probability is that of the pair against one random destination (or, with --against known, against one pair that
    met before), calibrated on validation. It is no forecast: for that, see next_probability of recommend.

    Of a run that predicts something else (train --predict), its answer for each row: about events, with the columns
    that are given, or about nodes.
    """
    from pintgn.ingest.read_options import FileFormat
    from pintgn.live.predict import predict as score

    output = table_output(output, overwrite)
    options: dict[str, Any] = {"src": src, "dst": dst, "t": time, "at": at, "against": against}
    with opened(run, observe, on) as live:
        table = score(live, pairs, **options, format=FileFormat(delimiter=delimiter, charset=charset))
    note_doubts(table)
    give_table(table, output, as_json, {"run": run}, "pairs")


def recommend(
    run: RunFolder,
    src: Annotated[list[str] | None, Option(metavar="ID", help="A source; may be repeated.")] = None,
    src_file: Annotated[str | None, Option(metavar="FILE", help="A table with a column of sources.")] = None,
    everyone: Annotated[bool, Option("--all", help="All sources.")] = False,
    k: Annotated[int, Option("-k", "--count", help="Number of destinations of each source.")] = 10,
    among: Annotated[
        list[str] | None, Option(metavar="ID", help="Choose only among these destinations; may be repeated.")
    ] = None,
    among_file: Annotated[str | None, Option(metavar="FILE", help="A table with a column of destinations.")] = None,
    exclude_met: Annotated[
        bool, Option("--exclude-met", help="Leave out destinations that the source has met.")
    ] = False,
    active_since: Annotated[
        str | None, Option(metavar="TIME", help="Leave out destinations without an event since then.")
    ] = None,
    exact: Annotated[
        bool | None,
        Option(
            "--exact/--candidates",
            help="Rank every destination, or only candidates: contacts, their contacts, popular ones. Every one up to "
            "50,000 by default.",
        ),
    ] = None,
    relation: ByRelation = None,
    at: At = None,
    observe: Observe = None,
    output: Table = None,
    overwrite: Overwrite = False,
    on: On = "local",
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
    with opened(run, observe, on) as live:
        sources = "all" if everyone else ids_of(live, src, src_file, "src")
        chosen = None if among is None and among_file is None else ids_of(live, among, among_file, "dst")
        if len(sources) == 1:
            note_unseen(live, sources[0])
        with Bar("ranking", "sources") as bar:
            table = live.recommend_many(
                sources, k, at, chosen, exclude_met=exclude_met, active_since=active_since, exact=exact,
                relation=relation, progress=bar,
            )  # fmt: skip
    note_candidates(live, chosen, exact)
    note_doubts(table)
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


def note_candidates(live: Any, among: list[Any] | None, exact: bool | None) -> None:
    """Note that only candidates were ranked, where that was not requested."""
    from pintgn.live.candidates import CANDIDATES
    from pintgn.live.recommend import ranks_some

    count = len(live.destinations)
    if exact is None and among is None and ranks_some(count, exact):
        say(f"note: of {count:,} destinations, up to {CANDIDATES:,} candidates of each source were ranked; or --exact")


def ids_of(live: Any, given: list[str] | None, path: str | None, role: str) -> list[Any]:
    """Ids from the command line, or from a column of a table: that of the run's log, `src` or `dst`, `id`, or the only
    one."""
    if path is None:
        return [live.codec.id_from_text(one) for one in given or []]
    from pintgn.ingest.sources import open_source
    from pintgn.live.predict import ids_in

    usual = [getattr(live.schema, role), role, "id"]
    source = open_source(path, usual[:1])
    name = next((one for one in usual if one in source.names), source.names[0] if len(source.names) == 1 else usual[0])
    return list(dict.fromkeys(ids_in(live, source, source.column(name))))


def embed(
    run: RunFolder,
    output: Annotated[
        Path | None, Option("--output", "-o", help="A .parquet, .csv or .npz file; RUN/embeddings.parquet by default.")
    ] = None,
    overwrite: Overwrite = False,
    node: Annotated[list[str] | None, Option(metavar="ID", help="A node; may be repeated. All by default.")] = None,
    node_file: Annotated[str | None, Option(metavar="FILE", help="A table with a column of nodes.")] = None,
    side: Annotated[str, Option(help="Whether --node are src or dst, if the two have separate namespaces.")] = "src",
    at: At = None,
    observe: Observe = None,
    on: On = "local",
    as_json: AsJson = False,
) -> None:
    """Write an embedding of every node, or of some, as of a time: id, (side,) embedding, notes.

    Notes: unknown for an id never seen, no events for a node without events. Parquet and CSV are written chunk by
    chunk, so memory does not limit the number of nodes.
    """
    if output is not None:
        check_output(output, overwrite)
    output = output or run / "embeddings.parquet"
    if output.suffix not in EMBEDDED:
        raise BadInput(f"{output} does not end in .parquet, .csv or .npz, which embeddings are written as.")
    if node and node_file is not None:
        raise BadInput("--node and --node-file cannot both be given.")
    with opened(run, observe, on) as live:
        ids: Any = "all" if node is None and node_file is None else ids_of(live, node, node_file, side)
        from pintgn.live.embeddings import write_embeddings

        with Bar("embedding", "nodes") as bar:
            reader = live.embed_many(ids, at, side, progress=bar)
            noted = write_embeddings(reader, output)
    count, width = noted.total(), reader.schema.field("embedding").type.list_size
    del noted[""]
    for words, rows in noted.items():
        say(f"note: {plural(rows, 'node')} noted: {words}")
    facts = {"run": run, "output": output, "nodes": count, "width": width, "notes": noted}
    answer(as_json, facts, f"{output}: {plural(count, 'node')}, {plural(width, 'number')} each")


def explain(
    run: RunFolder,
    src: Annotated[str, Argument(metavar="SRC", help="The source; or the node that the run asks about.")],
    dst: Annotated[str | None, Argument(metavar="DST", help="The destination.")] = None,
    at: At = None,
    given: Annotated[
        list[str] | None,
        Option("--given", metavar="NAME=VALUE", help="A given column of the event; may be repeated."),
    ] = None,
    relation: ByRelation = None,
    steps: Annotated[int, Option(help="Longest walks to list, 1 to 3.")] = 3,
    limit: Annotated[int, Option(help="Number of reasons of each kind.")] = 5,
    everything: Annotated[bool, Option("--all", help="List every reason, not only the main three.")] = False,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Explain an answer: what joins the two nodes, what is known about them, and the answer without it, what matters
    most first.

    With --all, every walk that joins them. Walks go back in time: each step is an earlier contact than the one before.
    `logit without` is the model's score if those contacts had never happened; in brackets, what they add to the score.
    """
    live = open_live(run, observe)
    ends = live.codec.id_from_text(src), None if dst is None else live.codec.id_from_text(dst)
    columns = given_columns(given, live.run.log.schema) if given else None
    found = live.explain(*ends, at, given=columns, relation=relation, steps=steps, limit=limit)
    answer(as_json, {"run": run, **found.as_dict()}, found.details() if everything else found)


def given_columns(given: list[str], schema: Any) -> dict[str, Any]:
    """NAME=VALUE pairs from the command line, as the log's columns have them."""
    from pintgn.ingest.encode import value_from_text

    found: dict[str, Any] = {}
    for one in given:
        name, sign, text = one.partition("=")
        if not sign:
            raise BadInput(f"--given {one}: write NAME=VALUE, as in --given amount=5.")
        found[name] = value_from_text(name, text, schema)
    return found


def open_live(run: Path, observe: list[str] | None) -> Any:
    """The live state of a run, after observing newer events."""
    from pintgn.live.live import open as open_run

    live = open_run(run)
    for path in observe or []:
        shown = shown_address(path) if "://" in path else path
        try:
            with Bar(f"observing {shown}", "events") as bar:
                count = live.observe(path, progress=bar)
        except (BadInput, BadFile) as error:
            raise type(error)(f"{error}{_convert_first(live, shown, str(error))}") from error
        say(f"observed {plural(count, 'event')} of {shown}")
    return live


@contextmanager
def opened(run: Path, observe: list[str] | None, on: str) -> Iterator[Any]:
    """The live state of a run, whose answers are computed here or on a Ray cluster."""
    if on == "local":
        yield open_live(run, observe)
        return
    from pintgn.live.ray_answerer import RayAnswerer
    from pintgn.workers.jobs import open_jobs

    files = [str(Path(path).resolve()) if Path(path).exists() else path for path in observe or []]
    with open_jobs(on, os.cpu_count() or 1) as jobs:
        live = open_live(run, observe)
        live.answerer = RayAnswerer(live, str(run.resolve()), files, jobs)
        yield live


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
    """Note an id that was never seen: a new node, or a typing error."""
    if id not in live.names.numbers[side]:
        near = suggest(id, live.names.ids[:50_000]) if live.codec.text else ""
        say(f"note: {id!r} has never been seen, and counts as a new node.{near if 'Did' in near else ''}")


def note_doubts(table: Any) -> None:
    """Note how many rows have notes, and which."""
    import pyarrow.compute as pc

    for one in pc.value_counts(table["notes"].combine_chunks()).to_pylist():
        if one["values"]:
            say(f"note: {plural(one['counts'], 'row')} noted: {one['values']}")


TABLES, EMBEDDED = (".csv", ".parquet", ".pq"), (".csv", ".parquet", ".pq", ".npz")
"""Endings of the files that tables, and embeddings, are written to."""


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
    """Write a table in the format of its file extension, atomically."""
    import pyarrow.csv
    import pyarrow.parquet

    from pintgn.events.store import writing_table

    write = pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table
    with writing_table(path) as part:
        write(table, part)
