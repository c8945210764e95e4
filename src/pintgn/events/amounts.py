"""Numbers as people write them: $1,200.50, 1.200,50 €, 1 200."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from pintgn.events.columns import try_cast

CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|AUD|CAD|NZD|BRL|MXN|ZAR|TRY|RUB|KRW|SGD|HKD"
"""Only known ones: any three letters before a number may as well be the name of a product."""
CURRENCY = rf"(?:[$€£¥₹₽₩₺₪₫₴₦₱฿]|[A-Z]{{1,2}}\$|Fr\.|kr\.?|zł|Kč|{CODES})"
BLANKS = " \u00a0\u2009\u202f"
BLANK = f"[{BLANKS}]"
MONEY = rf"^([+-]?){BLANK}*{CURRENCY}?{BLANK}*([+-]?\d[\d.,'’eE+{BLANKS}-]*?){BLANK}*{CURRENCY}?$"
"""A number between signs of a currency, of which only the number is kept."""
EXPONENT = r"(?:[eE][+-]?\d+)?"
GROUPED = {
    # 1,200 alone may be a thousand or one and a fifth: a decimal point or a second comma settles it
    None: rf"^[+-]?\d{{1,3}}(?:(?:,\d{{3}})+\.\d+|(?:,\d{{3}}){{2,}}|(?:['’{BLANKS}]\d{{3}})+(?:\.\d+)?)$",
    ".": rf"^[+-]?\d{{1,3}}(?:[,'’{BLANKS}]\d{{3}})+(?:\.\d+)?$",
    ",": rf"^[+-]?(?:\d{{1,3}}(?:[.'’{BLANKS}]\d{{3}})+|\d+)(?:,\d+)?{EXPONENT}$",
}
"""Numbers with thousands apart, by their decimal mark; with a decimal comma, all numbers."""
COMMA = re.compile(rf"\D*\d+(?:[.'’{BLANKS}]\d{{3}})*,(\d+)\D*")


def tidy(values: pa.Array, decimal: str | None = None) -> pa.Array:
    """The same numbers, trimmed, as a computer writes them; what is no number stays as it is.

    >>> tidy(pa.array([" $1,200.50", "1 200", "1,5"])).to_pylist()
    ['1200.50', '1200', '1,5']
    >>> tidy(pa.array(["1.200,50 €", "-1.200", "1.5"]), ",").to_pylist()
    ['1200.50', '-1200', 'decimal point: 1.5']
    """
    values = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), MONEY, r"\1\2")
    fits = pc.match_substring_regex(values, GROUPED[decimal])
    if decimal == ",":
        bare = pc.replace_substring(pc.replace_substring_regex(values, f"[.'’{BLANKS}]", ""), ",", ".")
        other = pc.binary_join_element_wise("decimal point:", values, " ")
        return pc.if_else(fits, bare, pc.if_else(pc.match_substring(values, "."), other, values))
    return pc.if_else(fits, pc.replace_substring_regex(values, f"[,'’{BLANKS}]", ""), values)


def looks_numeric(text: str) -> bool:
    """Whether a cell is meant as a number, whichever way it is written.

    >>> [looks_numeric(text) for text in ("12", "12,5 €", "1.200,50", "abc", "SKU123", "2024-01-31")]
    [True, True, True, False, False, False]
    """
    cell = pa.array([text])
    return any(try_cast(tidy(cell, decimal), pa.float64()) is not None for decimal in GROUPED)


def advice(text: str) -> str:
    """What to write where a number has a decimal comma, or may have one."""
    found = COMMA.fullmatch(text.strip())
    if found is None:
        return ""
    if len(found[1]) == 3 and "." not in text:
        return " Is the comma a decimal comma, pass decimal=',' (--decimal ,); does it group thousands, decimal='.'."
    return " If the comma is a decimal comma, pass decimal=',' (--decimal ,)."
