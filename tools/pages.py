"""Python blocks of Markdown pages, what they print, and whether a page still tells it truly.

A ```text block that follows a ```python block, with nothing but blank lines between, is what that block prints. Pages
run top to bottom in one namespace, in an empty folder. `python tools/pages.py PAGE …` writes the outputs anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<output>.*?)^```$)?", re.M | re.S)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w])")


class Block(NamedTuple):
    """A python block, and the output that the page shows for it, if it shows one."""

    code: str
    output: str | None


def blocks(text: str) -> list[Block]:
    return [Block(found["code"], found["output"]) for found in BLOCK.finditer(text)]


def run(text: str, name: str) -> Iterator[tuple[Block, str]]:
    """Run a page's blocks in order, here; each with what it printed."""
    namespace: dict[str, Any] = {"__name__": Path(name).stem.replace("-", "_")}
    for number, block in enumerate(blocks(text), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, f"{name}, block {number}", "exec"), namespace)
        yield block, printed.getvalue()


def difference(shown: str, printed: str) -> str | None:
    """What a page shows that is not so: other words, or numbers that are far off. None if it is true.

    Trained figures differ in their last digits between machines, so numbers may be a little off. A line that is or ends
    in … stands for anything from there on.
    """
    there, here = shown.rstrip().splitlines(), printed.rstrip().splitlines()
    for number, line in enumerate(there):
        if line.strip() == "…":
            return None
        if number >= len(here):
            return f"the page shows {line!r}; nothing more was printed"
        if line.endswith("…"):
            here[number] = here[number][: len(line) - 1]
            line = line[:-1]
        if not _alike(line, here[number]):
            return f"the page shows {line!r}; printed was {here[number]!r}"
    if len(here) > len(there):
        return f"the page does not show {here[len(there)]!r}"
    return None


def _alike(one: str, other: str) -> bool:
    words = [re.sub(r"\d+", "#", re.sub(r"\s+", " ", NUMBER.sub("#", line))).strip() for line in (one, other)]
    if words[0] != words[1]:
        return False
    pairs = zip(*([float(n.replace(",", "")) for n in NUMBER.findall(line)] for line in (one, other)), strict=True)
    return all(abs(a - b) <= _room(abs(a)) for a, b in pairs)


def _room(value: float) -> float:
    """How far off a number may be, by its size: a probability, a percentage or a small count, a large count."""
    return 0.05 if value <= 1 else 3.0 if value <= 100 else 0.1 * value


def rewritten(page: Path) -> str:
    """The page with the outputs that its blocks print now."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        printed = iter([out for _, out in run(text, page.name)])

    def replaced(found: re.Match[str]) -> str:
        out = next(printed)
        old = found["output"]
        if old is None or old.rstrip().endswith("…"):  # an excerpt is chosen by hand
            return found[0]
        return found[0].replace(f"```text\n{old}```", f"```text\n{out.rstrip()}\n```")

    return BLOCK.sub(replaced, text)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for argument in sys.argv[1:]:
        page = Path(argument).resolve()
        page.write_text(rewritten(page))
        print(f"wrote {argument}")
