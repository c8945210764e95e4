"""Numbers with thousands separators or a decimal comma: 1,200.50, 1.200,50, 1 200."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from pintgn.events.columns import try_cast

BLANKS = " \u00a0\u2009\u202f"
GROUPED = {
    # 1,200 alone may be a thousand or one and a fifth: a decimal point or a second comma settles it
    None: rf"^[+-]?\d{{1,3}}(?:(?:,\d{{3}})+\.\d+|(?:,\d{{3}}){{2,}}|(?:['’{BLANKS}]\d{{3}})+(?:\.\d+)?)$",
    ".": rf"^[+-]?\d{{1,3}}(?:[,'’{BLANKS}]\d{{3}})+(?:\.\d+)?$",
    ",": rf"^[+-]?(?:\d{{1,3}}(?:[.'’{BLANKS}]\d{{3}})+|\d+)(?:,\d+)?(?:[eE][+-]?\d+)?$",
}
"""Numbers with thousands separators, by decimal mark; with a decimal comma, all numbers."""
COMMA = re.compile(rf"[+-]?\d+(?:[.'’{BLANKS}]\d{{3}})*,(\d+)")
CURRENCY = re.compile(rf"[+-]?[$€£¥][{BLANKS}]*[+-]?\d[\d.,'’{BLANKS}]*|[+-]?\d[\d.,'’{BLANKS}]*[$€£¥]")

DECIMAL = "FileFormat(decimal=',') (--decimal ,)"
"""How a decimal comma is said."""


def tidy(values: pa.Array, decimal: str | None = None) -> pa.Array:
    """Numbers without separators and with a decimal point; other text unchanged.

    >>> tidy(pa.array(["1,200.50", "1 200", "1,5"])).to_pylist()
    ['1200.50', '1200', '1,5']
    >>> tidy(pa.array(["1.200,50", "-1.200", "1.5"]), ",").to_pylist()
    ['1200.50', '-1200', 'decimal point: 1.5']
    """
    values = pc.utf8_trim_whitespace(values)
    fits = pc.match_substring_regex(values, GROUPED[decimal])
    if decimal == ",":
        plain = pc.replace_substring(pc.replace_substring_regex(values, f"[.'’{BLANKS}]", ""), ",", ".")
        other = pc.binary_join_element_wise("decimal point:", values, " ")
        return pc.if_else(fits, plain, pc.if_else(pc.match_substring(values, "."), other, values))
    return pc.if_else(fits, pc.replace_substring_regex(values, f"[,'’{BLANKS}]", ""), values)


def looks_numeric(text: str) -> bool:
    """True if a cell is meant as a number, even one that is refused.

    >>> [looks_numeric(text) for text in ("12", "12,5 €", "1.200,50", "abc", "SKU123", "2024-01-31")]
    [True, True, True, False, False, False]
    """
    cell = pa.array([text])
    is_number = any(try_cast(tidy(cell, decimal), pa.float64()) is not None for decimal in GROUPED)
    return is_number or CURRENCY.fullmatch(text.strip()) is not None


def advice(text: str) -> str:
    """The next step for a number with a currency sign or a doubtful comma."""
    if CURRENCY.fullmatch(text.strip()):
        return " Remove the currency sign from the column."
    found = COMMA.fullmatch(text.strip())
    if found is None:
        return ""
    if len(found[1]) == 3 and "." not in text:
        return f" Is the comma a decimal comma, pass {DECIMAL}; does it group thousands, decimal='.'."
    return f" If the comma is a decimal comma, pass {DECIMAL}."
