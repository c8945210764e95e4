"""`pintgn theory`: which models can distinguish what, and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from pintgn.cli.common import AsJson, Bar, Grid, answer, console, emit_json, say
from pintgn.cli.source import Reader, reads_events
from pintgn.errors import BadInput
from pintgn.formatting import number

app = typer.Typer(help="Which models can distinguish what, and why.", no_args_is_help=True)

At = Annotated[str | None, Option("--at", metavar="T", help="As of when: a number in the log's unit, or a date.")]
Depth = Annotated[int, Option(help="Number of message-passing layers.")]
Positions = Annotated[int, Option("-d", "--positions", help="Length of the position vectors.")]
Times = Annotated[str, Option(help="Resolution at which models see time: exact, octaves or blind.")]
Side = Annotated[str | None, Option(help="src or dst, where the two are separate namespaces.")]


@app.command()
def gallery(
    name: Annotated[str | None, Argument(metavar="NAME", help="An item of the gallery; all by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the paper's constructions: events, explanations and a verdict for every class of models."""
    from pintgn.theory import items as shown

    items = [shown.item(name)] if name else list(shown.gallery().values())
    if as_json:
        emit_json({item.name: item.to_dict() for item in items})
    elif name:
        print(items[0])
    else:
        rows = [[item.name, item.title, item.source] for item in items]
        console().print(Grid(rows, ["name", "what it shows", "in the paper"], left=3))
        say(f"Look at one: pintgn theory gallery {items[0].name}")


@app.command()
@reads_events
def wl(
    load: Reader,
    rounds: Annotated[int | None, Option(help="Number of rounds; until stable by default.")] = None,
    at: At = None,
    times: Times = "exact",
    against: Annotated[
        str | None, Option(metavar="DATA", help="Test isomorphism with this log, read with the same options.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run temporal WL: colours of the nodes after each round or, with --against, the test of two graphs."""
    from pintgn.theory.colors import temporal_wl, temporal_wl_test

    log = load()
    if against is not None:
        test = temporal_wl_test(log, load(against), t=at)
        answer(as_json, {"verdict": test.verdict, "round": test.round, "witness": test.witness}, test)
        return
    coloring = temporal_wl(log, rounds, t=at, times=times)
    sizes = [sorted(Counter(colors[coloring.present].tolist()).values(), reverse=True) for colors in coloring.colors]
    facts = {"colors": coloring.counts, "stable": coloring.stable, "largest_classes": [one[:20] for one in sizes]}
    rows = [[f"round {r}", *map(number, (len(one), one.count(1), one[0]))] for r, one in enumerate(sizes)]
    title = f"{int(coloring.present.sum()):,} nodes"
    end = "not stable yet" if coloring.stable is None else f"stable after round {coloring.stable}"
    answer(as_json, facts, Grid(rows, ["", "colours", "nodes alone", "largest class"], title, end))


@app.command()
@reads_events
def distinguish(
    load: Reader,
    ids: Annotated[
        list[str], Argument(help="Two ids (two nodes) or four (two events: u v and u' v').", metavar="ID...")
    ],
    at: At = None,
    depth: Depth = 2,
    d: Positions = 4,
    steps: Annotated[int | None, Option(help="Longest walk of CAW, in steps; --depth by default.")] = None,
    times: Times = "exact",
    side: Side = None,
    as_json: AsJson = False,
) -> None:
    """Decide which classes of models can distinguish two nodes, or two events at one time, with a witness for each."""
    from pintgn.ingest.codec import Codec
    from pintgn.theory.comparison import distinguish as compare

    if len(ids) not in (2, 4):
        raise BadInput(f"{len(ids)} ids; pass two to compare nodes, or four to compare two events.")
    log = load()
    given = list(map(Codec.of(log).id_from_text, ids))
    a, b = (given[0], given[1]) if len(given) == 2 else (tuple(given[:2]), tuple(given[2:]))
    found = compare(log, a, b, at, depth=depth, d=d, steps=steps, times=times, side=side)
    settings = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    rows = [[one.model, one.word, one.reason] for one in found.verdicts.values()]
    answer(as_json, found.to_dict(), Grid(rows, ["class", "verdict", "why"], f"{found.question} ({settings})", left=3))


@app.command()
@reads_events
def tree(
    load: Reader,
    id: Annotated[str, Argument(metavar="ID", help="The node at the root.")],
    at: At = None,
    depth: Annotated[int | None, Option(help="Levels below the root; 2 by default, all of a monotone tree.")] = None,
    monotone: Annotated[bool, Option("--monotone", help="Only paths whose times decrease.")] = False,
    svg: Annotated[Path | None, Option(help="SVG file for a drawing.")] = None,
    side: Side = None,
    as_json: AsJson = False,
) -> None:
    """Show the temporal computation tree of a node, or its monotone tree, as text or as a drawing."""
    from pintgn.ingest.codec import Codec
    from pintgn.theory.computation_trees import computation_tree, monotone_tree

    log = load()
    node = Codec.of(log).id_from_text(id)
    if monotone:
        grown = monotone_tree(log, node, at, depth, side=side)
    else:
        grown = computation_tree(log, node, at, 2 if depth is None else depth, side=side)
    if svg is not None:
        svg.write_text(grown.svg())
    answer(as_json, lambda: _tree_facts(grown), grown.text)


def _tree_facts(grown: Any) -> dict[str, Any]:
    nodes = [
        {"id": grown.label(i), "level": n.level, "parent": n.parent, "t": grown.time(i) if i else None}
        for i, n in enumerate(grown.nodes)
    ]
    levels = [len(grown.level(k)) for k in range(grown.depth + 1)]
    return {"kind": grown.kind, "size": grown.size, "levels": levels, "nodes": nodes}


@app.command()
@reads_events
def report(
    load: Reader,
    at: At = None,
    depth: Depth = 2,
    d: Positions = 4,
    steps: Annotated[int, Option(help="Longest walk of CAW, in steps.")] = 2,
    pairs: Annotated[int, Option(help="Number of links to sample.")] = 300,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Report what each class of models can distinguish in your data, and whether positions are worth their cost."""
    from pintgn.theory.data_report import report as make

    log = load()
    with Bar("reading") as bar:
        made = make(log, at, depth=depth, d=d, steps=steps, pairs=pairs, seed=seed, progress=bar)
    answer(as_json, made.to_dict(), made)
