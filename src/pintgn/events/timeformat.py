"""Times that are not written as ISO-8601: by a format such as %d.%m.%Y, which is also guessed for error messages."""

from __future__ import annotations

import datetime
import itertools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, suggest
from pintgn.events.columns import first_uncastable, is_text, try_cast

UNITS = ("s", "ms", "us", "ns")
DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d",
    "%Y.%m.%d", "%d %b %Y", "%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d/%b/%Y", "%a %b %d %Y",
    "%a, %d %b %Y",
)  # fmt: skip
HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", ":%H:%M:%S", ", %H:%M", " %I:%M %p", " %I:%M:%S %p", " %H:%M:%S %z")
NATIVE = frozenset("YmdHMSy%")
"""Directives that Arrow reads as Python does; others go through Python, once for each distinct value."""


def check_format(given: str | None) -> str | None:
    """A format as users say it: strptime's, or the unit of numbers that count since 1970."""
    if given is None or given in UNITS:
        return given
    if "%" not in given:
        raise BadInput(
            f"time_format={given!r} is neither a unit (s, ms, us or ns since 1970) nor a format such as "
            f"'%d.%m.%Y %H:%M'.{suggest(given, UNITS) if len(given) < 4 else ''}"
        )
    try:
        datetime.datetime.strptime("", given)
    except ValueError as error:
        if "does not match" not in str(error) and "unconverted" not in str(error):
            raise BadInput(f"time_format={given!r} is no format: {error}.") from error
    return given


def by_format(values: pa.Array, format: str) -> tuple[np.ndarray, str, set[str | None]] | int:
    """Counts since 1970 UTC, their unit, and the zones that are written; or the first row that is written otherwise."""
    values = pc.ascii_trim_whitespace(values) if is_text(values.type) else values
    if format in UNITS:
        whole = try_cast(values, pa.int64())
        return first_uncastable(values, pa.int64()) if whole is None else (whole.to_numpy(), format, {None})
    values = values.cast(pa.string())
    if set(re.findall(r"%(.)", format)) <= NATIVE:
        dates = pc.strptime(values, format=format, unit="s", error_is_null=True)
        if dates.null_count:
            return int(pc.index(dates.is_null(), True).as_py())
        return dates.cast(pa.int64()).to_numpy(), "s", {None}
    distinct = values.dictionary_encode()
    moments = []
    for index, text in enumerate(distinct.dictionary.to_pylist()):
        try:
            moments.append(datetime.datetime.strptime(text, format))
        except ValueError:
            return int(pc.index(distinct.indices, index).as_py())
    zones = {None if moment.tzinfo is None else "UTC" for moment in moments}
    fine = any(moment.microsecond for moment in moments)
    counts = np.array(
        [moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment for moment in moments],
        "datetime64[us]",
    ).astype(f"datetime64[{'us' if fine else 's'}]")
    return counts.astype(np.int64)[distinct.indices.to_numpy()], "us" if fine else "s", zones


def likely_formats(text: str) -> list[str]:
    """Formats that a time may have been written in.

    >>> likely_formats("24.12.2024 18:30"), likely_formats("03/04/2024"), likely_formats("soon")
    (['%d.%m.%Y %H:%M'], ['%m/%d/%Y', '%d/%m/%Y'], [])
    """
    found = []
    for day, hour in itertools.product(DAYS, HOURS):
        try:
            datetime.datetime.strptime(text.strip(), day + hour)
        except ValueError:
            continue
        found.append(day + hour)
    return found


def since_1970(first: int | float, last: int | float) -> str | None:
    """The unit in which numbers would count from 1990 to 2050, if there is one.

    >>> since_1970(1_082_040_961, 1_098_777_142), since_1970(1_082_040_961_000, 1_098_777_142_000), since_1970(0, 900)
    ('s', 'ms', None)
    """
    for index, unit in enumerate(UNITS):
        if 631e6 * 1000**index <= first <= last <= 2525e6 * 1000**index:
            return unit
    return None
