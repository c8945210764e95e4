"""HTML elements of a report. Text from users (ids, names, paths) goes through `text`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any


def text(value: Any) -> str:
    """
    >>> text("<b> & 'co'")
    '&lt;b&gt; &amp; &#x27;co&#x27;'
    """
    return escape(str(value), quote=True)


def unbroken(html: str) -> str:
    """HTML with no-break spaces between numbers and units."""
    return html.replace(" %", "\u00a0%").replace(" points", "\u00a0points")


def card(title: str, body: str | None, note: str = "", legend: str = "", why: str = "") -> str:
    """A titled box with a chart and a note; without a chart, the reason why."""
    if body is None:
        return f'<div class="card"><h3>{text(title)}</h3><div class="empty"><p>{text(why)}</p></div></div>'
    return f'<figure class="card"><h3>{text(title)}</h3>{paragraph(note)}{legend}{body}</figure>'


def paragraph(html: str, kind: str = "") -> str:
    """A paragraph; empty if there is no text."""
    return html and f"<p{kind and f' class={kind}'}>{html}</p>"


def grid(*cards: str) -> str:
    return f'<div class="grid">{"".join(cards)}</div>'


def wide(title: str, body: str, note: str = "") -> str:
    head = f"<h3>{text(title)}</h3>" if title else ""
    return f'<div class="card wide">{head}{paragraph(note)}{body}</div>'


def legend(items: Sequence[tuple[str, str]]) -> str:
    """Colors and their names."""
    listed = "".join(f'<li class="{kind}"><i></i><span>{text(word)}</span></li>' for kind, word in items)
    return f'<ul class="legend">{listed}</ul>'


def table(heads: Sequence[str], body: str) -> str:
    """Heads are HTML, the first aligned left; body is rows or tbody elements."""
    inner = body if body.startswith("<tbody") else f"<tbody>{body}</tbody>"
    top = "".join(f"<th>{head}</th>" for head in heads)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead>{inner}</table></div>'


def cells(values: Sequence[str], kind: str = "") -> str:
    """A row; the first cell is its head."""
    first, *rest = values
    return f"<tr{kind and f' class={kind}'}><th>{first}</th>" + "".join(f"<td>{value}</td>" for value in rest) + "</tr>"


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values; values are HTML."""
    return "<dl>" + "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs) + "</dl>"


def code(*lines: str) -> str:
    return f"<pre>{text(chr(10).join(lines))}</pre>"


def section(title: str, body: str) -> str:
    return f'<section id="{anchor(title)}"><h2>{text(title)}</h2>{body}</section>'


def anchor(title: str) -> str:
    """The id of a section.

    >>> anchor("Over time")
    'over-time'
    """
    return title.lower().replace(" ", "-")


def lead(html: str) -> str:
    """The first words of a section."""
    return paragraph(unbroken(html), "lead")


def page(title: str, style: str, body: str) -> str:
    """The whole document, which loads nothing."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
