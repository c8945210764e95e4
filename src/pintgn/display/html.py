"""HTML elements for notebooks, without styles. Text from users goes through `escape`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1) -> str:
    """A table; the first `left` columns are text, the others numbers.

    >>> table(["model", "AP"], [["a<b", "97.2"]])
    '<table><thead><tr><th style="text-align:left">model</th><th style="text-align:right">AP</th></tr></thead><tbody><tr><td style="text-align:left">a&lt;b</td><td style="text-align:right">97.2</td></tr></tbody></table>'
    """  # noqa: E501

    def line(cells: Sequence[Any], tag: str) -> str:
        sides = ["left"] * left + ["right"] * (len(cells) - left)
        return "".join(
            f'<{tag} style="text-align:{side}">{escape(str(cell))}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )

    head = f"<thead><tr>{line(heads, 'th')}</tr></thead>" if any(heads) else ""
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def paragraph(text: str, strong: bool = False) -> str:
    """
    >>> paragraph("a < b", strong=True)
    '<p><b>a &lt; b</b></p>'
    """
    return f"<p><b>{escape(text)}</b></p>" if strong else f"<p>{escape(text)}</p>"


def folded(title: str, body: str) -> str:
    """A collapsed section."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>" if body else ""
