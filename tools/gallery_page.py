"""Write docs/gallery.md and its drawings from the gallery of `pintgn.theory`."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

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
    return "\n".join(lines).rstrip() + "\n", drawings


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
