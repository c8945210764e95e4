"""Python blocks of Markdown pages, what they print, and whether a page still tells it truly.

A ```text block that follows a ```python block, with nothing but blank lines between, is what that block prints, to the
letter. Where training had a part in it, the digits are those of one machine: such a block is fenced
```text { .learned } and compared without its numbers. What must hold about them is asserted in tests/promises.py. Pages
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

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^(?P<fence>```text(?P<learned> \{ \.learned \})?)\n(?P<output>.*?)^```$)?",
    re.M | re.S,
)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class Block(NamedTuple):
    """A python block, the output that the page shows for it, if it shows one, and whether training had a part in it."""

    code: str
    output: str | None
    learned: bool


def blocks(text: str) -> list[Block]:
    return [Block(found["code"], found["output"], found["learned"] is not None) for found in BLOCK.finditer(text)]


def run(text: str, name: str, namespace: dict[str, Any] | None = None) -> Iterator[tuple[Block, str]]:
    """Run a page's blocks in order, here, leaving what they define in the namespace; each with what it printed."""
    namespace = {} if namespace is None else namespace
    namespace["__name__"] = Path(name).stem.replace("-", "_")
    for number, block in enumerate(blocks(text), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, f"{name}, block {number}", "exec"), namespace)
        yield block, printed.getvalue()


def difference(shown: str, printed: str, learned: bool = False) -> str | None:
    """What a page shows that is not so, or None. A line that is or ends in … stands for anything from there on.

    Of what was learned only the words are compared: no digit that training made is the same on every machine.
    """
    there, here = shown.rstrip().splitlines(), printed.rstrip().splitlines()
    for number, line in enumerate(there):
        if line.strip() == "…":
            return None
        if number >= len(here):
            return f"the page shows {line!r}; nothing more was printed"
        begun = line.endswith("…")
        one, other = (_words(text) if learned else text.rstrip() for text in (line.rstrip("…"), here[number]))
        if not (other.startswith(one) if begun else other == one):
            return f"the page shows {line!r}; printed was {here[number]!r}"
    if len(here) > len(there):
        return f"the page does not show {here[len(there)]!r}"
    return None


def _words(line: str) -> str:
    """A line without its numbers, the widths that they give to columns, and the rules below heads."""
    return re.sub(r"\s+", " ", re.sub("─+", "─", NUMBER.sub("#", line))).strip()


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
        return found[0].replace(f"{found['fence']}\n{old}```", f"{found['fence']}\n{out.rstrip()}\n```")

    return BLOCK.sub(replaced, text)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for argument in sys.argv[1:]:
        page = Path(argument).resolve()
        page.write_text(rewritten(page))
        print(f"wrote {argument}")
