"""Write docs/gallery.md and its drawings from the gallery of `pintgn.theory`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from pintgn.theory import draw
from pintgn.theory.injective import float_limits, forgetting_age
from pintgn.theory.items import Item, gallery

DOCS = Path(__file__).parents[1] / "docs"


def page(images: str = "img") -> tuple[str, dict[str, str]]:
    """The gallery as a Markdown page and its drawings by file name."""
    lines = [
        "# Gallery: what can be told apart",
        "",
        "The paper's constructions, small enough to check by hand. Numbers are times, fills are node features, and the",
        "compared pair is dashed (two events) or ringed (two nodes). Every claim is tested, and every table is the",
        "output of `pintgn theory distinguish`. This page is written by `python tools/gallery_page.py`.",
        "",
    ]
    drawings: dict[str, str] = {}
    for one in gallery().values():
        lines += [f"## {one.title}", "", f"`{one.name}` · {one.source}", ""]
        pictures = {"": one.svg(), "-trees": one.trees_svg()}
        for suffix, svg in pictures.items():
            if svg is not None:
                file = f"gallery-{one.name}{suffix}.svg"
                drawings[file] = svg
                lines += [f"![{one.title}{', trees' if suffix else ''}]({images}/{file})", ""]
        lines += [fill(one.text, 116), ""]
        for number, shown in enumerate(one.graphs):
            caption = f" {shown.caption}" if shown.caption else ""
            lines += ([""] if number else []) + [fill(f"Events{caption}: {shown}.", 116)]
        lines.append("")
        lines += _facts(one)
        for number in range(len(one.claims)):
            lines += _verdicts(one, number)
    lines += _floats(drawings, images)
    return "\n".join(lines).rstrip() + "\n", drawings


def _floats(drawings: dict[str, str], images: str) -> list[str]:
    """The experiment on Prop. 8: where sums of floats stop being injective."""
    title = "Where sums of floats stop being injective"
    limits = [*float_limits(np.float32, symbols=range(1, 9)), *float_limits(np.float64, symbols=range(8, 13))]
    rows: list[tuple[str, Sequence[tuple[float, str]], str]] = []
    for limit in limits:
        kept = f"{limit.distinct:,} of {limit.multisets:,} multisets"
        name = f"{limit.dtype}, {limit.symbols} symbol{'s' * (limit.symbols > 1)}, {limit.bits:.0f} bits"
        rows.append((name, [(1 - limit.lost, "#3b7dbd")], kept))
    drawings["gallery-floats.svg"] = draw.bars("Multisets with a sum of their own", rows).svg(title)
    lost = next(limit for limit in limits if limit.collision)
    assert lost.collision is not None
    few, many = (" ".join(f"({'abcdefgh'[int(s)]}, {t})" for s, t in side) for side in lost.collision)  # type: ignore[call-overload]
    text = (
        "PINT's sum with exponential decay determines the multiset it is taken over if every pair of a symbol "
        "(node state and event features) and a time has digits of its own (Prop. 8). With exact fractions, "
        "`TemporalCode.decode` reads it back. Here all multisets of fewer than four pairs are "
        "summed in floating point, smallest terms first, in base 2, with two times and more and more symbols. As "
        "long as the digits fit the float's bits (24 in float32, 53 in float64) every sum is unique; beyond that "
        f"the smallest terms vanish beside the largest: with {lost.symbols} symbols, {many} has the float32 sum of "
        f"{few} alone. In the same way an event with weight 2^-24 of the newest one's leaves no trace in Eq. 5: "
        f"with alpha 2, after {forgetting_age():g}/beta units of time."
    )
    return [f"## {title}", "", "Prop. 8", "", f"![{title}]({images}/gallery-floats.svg)", "", fill(text, 116), ""]


def _facts(one: Item) -> list[str]:
    if not one.facts:
        return []
    names = list(one.facts[0])
    lines = ["| graph | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for graph, facts in zip(one.graphs, one.facts, strict=True):
        values = ["infinite" if facts[name] == float("inf") else f"{facts[name]:g}" for name in names]
        lines.append(f"| {graph.caption} | " + " | ".join(values) + " |")
    return [*lines, ""]


def _verdicts(one: Item, number: int) -> list[str]:
    answer = one.answer(number)
    settings = ", ".join(f"{name} {value}" for name, value in answer.settings.items())
    lines = [
        f"{answer.question[0].upper()}{answer.question[1:]}, {settings}:",
        "",
        "| class | verdict | why |",
        "|---|---|---|",
    ]
    rows = ([v.model, v.word, v.reason.replace("|", "\\|")] for v in answer.verdicts.values())
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


if __name__ == "__main__":
    written, pictures = page()
    (DOCS / "gallery.md").write_text(written)
    for name, svg in pictures.items():
        (DOCS / "img" / name).write_text(svg)
    print(f"wrote gallery.md and {len(pictures)} drawings")
