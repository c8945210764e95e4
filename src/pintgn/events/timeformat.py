"""Formats and time zones of dates: ISO-8601, a format such as %d.%m.%Y, the zone that is written or assumed."""

from __future__ import annotations

import datetime
import itertools
import re
import zoneinfo
from typing import NamedTuple

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
OFFSET = re.compile(r"(?:Z|([+-])(\d\d):?(\d\d)?)$")
ZONED = r":\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$"
"""A date whose time of day has a zone behind it."""


KINDS = {
    "number": (pa.int64(), pa.float64()),
    "date": (pa.timestamp("s"), pa.timestamp("ns")),
    "zoned": (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")),
}
"""What a time written as text may be, and the types it can be cast to then; `zoned` is a date with a zone."""


class Dates(NamedTuple):
    """Dates as counts since 1970 UTC."""

    counts: np.ndarray  # (rows,) int64
    unit: str
    zones: set[str | None]
    """The zones they are written in; None for dates without one, which are counted as if in UTC."""

    def in_zone(self, zone: str | None) -> Dates:
        """The same, where dates that are written without a zone are in this one."""
        if zone is None or self.zones != {None}:
            return self
        return Dates(in_zone(self.counts, self.unit, zone), self.unit, {zone})


def read_dates(values: pa.Array, zone: str | None = None, coarsest: str = "s") -> Dates | None:
    """Dates as ISO-8601 text, timestamps or days, in the coarsest unit that holds them; None for anything else."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return Dates(values.cast(pa.int64()).to_numpy(), kind.unit, {kind.tz}).in_zone(zone)
    if pa.types.is_date(kind):
        seconds = values.cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
        return Dates(seconds, "s", {None}).in_zone(zone)
    if not is_text(kind):
        return None
    units = UNITS[UNITS.index(coarsest) :]
    for unit, written in itertools.product(units, (None, "UTC")):
        if (dates := try_cast(values, pa.timestamp(unit, written))) is not None:
            zones: set[str | None] = written_offsets(values) if written else {None}
            return Dates(dates.cast(pa.int64()).to_numpy(), unit, zones).in_zone(zone)
    if zone is None:
        return None
    has = pc.match_substring_regex(values, ZONED).to_numpy(zero_copy_only=False)  # a zone in some rows only
    with_zone, without = values.filter(pa.array(has)), values.filter(pa.array(~has))
    for unit in units:
        one, other = try_cast(with_zone, pa.timestamp(unit, "UTC")), try_cast(without, pa.timestamp(unit))
        if one is not None and other is not None:
            counts = np.empty(len(values), np.int64)
            counts[has] = one.cast(pa.int64()).to_numpy()
            counts[~has] = in_zone(other.cast(pa.int64()).to_numpy(), unit, zone)
            return Dates(counts, unit, {zone, *written_offsets(with_zone)})
    return None


def written_offsets(values: pa.Array) -> set[str | None]:
    """The distinct zone offsets that are written in a column of dates."""
    found: set[str | None] = set()
    for tail in pc.unique(pc.utf8_slice_codeunits(values, -6, 2**31 - 1)).to_pylist():
        sign, hours, minutes = OFFSET.search(tail).groups()  # type: ignore[union-attr]
        offset = f"{sign}{hours}:{minutes or '00'}" if sign else "UTC"
        found.add("UTC" if offset[1:] == "00:00" else offset)
    return found


# -- formats -----------------------------------------------------------------------------------------------


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


def by_format(values: pa.Array, format: str) -> Dates | int:
    """Dates in a format of their own, or the first row that is written otherwise."""
    values = pc.ascii_trim_whitespace(values) if is_text(values.type) else values
    if format in UNITS:
        whole = try_cast(values, pa.int64())
        return first_uncastable(values, pa.int64()) if whole is None else Dates(whole.to_numpy(), format, {None})
    values = values.cast(pa.string())
    if set(re.findall(r"%(.)", format)) <= NATIVE:
        dates = pc.strptime(values, format=format, unit="s", error_is_null=True)
        if dates.null_count:
            return int(pc.index(dates.is_null(), True).as_py())
        return Dates(dates.cast(pa.int64()).to_numpy(), "s", {None})
    distinct = values.dictionary_encode()
    moments = []
    for index, text in enumerate(distinct.dictionary.to_pylist()):
        try:
            moments.append(datetime.datetime.strptime(text, format))
        except ValueError:
            return int(pc.index(distinct.indices, index).as_py())
    zones = {None if moment.tzinfo is None else "UTC" for moment in moments}
    unit = "us" if any(moment.microsecond for moment in moments) else "s"
    plain = [moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment for moment in moments]
    counts = np.array(plain, "datetime64[us]").astype(f"datetime64[{unit}]").astype(np.int64)
    return Dates(counts[distinct.indices.to_numpy()], unit, zones)


def kind_of(text: str) -> str | None:
    """The kind of a time written as text, one of `KINDS`; None for text that is not a time, such as a header."""
    value = pa.array([text.strip()])
    kinds = (kind for kind, types in KINDS.items() if any(try_cast(value, one) is not None for one in types))
    return next(kinds, None)


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


# -- zones -------------------------------------------------------------------------------------------------


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone by its name, or as an offset such as +02:00.

    >>> zone_of("Europe/Berlin"), zone_of("+02:00")
    (zoneinfo.ZoneInfo(key='Europe/Berlin'), datetime.timezone(datetime.timedelta(seconds=7200)))
    >>> zone_of("Berlin")
    Traceback (most recent call last):
    pintgn.errors.BadInput: there is no time zone 'Berlin'. Did you mean 'Europe/Berlin'?
    """
    try:
        if re.fullmatch(r"[+-]\d\d:\d\d", name):
            return datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo  # type: ignore[return-value]
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    known = sorted(zoneinfo.available_timezones())
    city = name.strip().replace(" ", "_").lower()
    same = [one for one in known if one.rpartition("/")[2].lower() == city]
    near = suggest(same[0] if same else name, same[:1] or known)
    advice = near if "Did" in near else " Write it as Europe/Berlin or +02:00."
    raise BadInput(f"there is no time zone {name!r}.{advice}")


def in_zone(counts: np.ndarray, unit: str, zone: str) -> np.ndarray:
    """Counts of local times as counts since 1970 UTC.

    An hour that a zone has twice, in autumn, counts as the first; one that it leaves out, in spring, as the next.
    """
    if zone[:1] in "+-":
        offset = zone_of(zone).utcoffset(None)
        return counts - int(offset.total_seconds()) * 1000 ** UNITS.index(unit)  # type: ignore[union-attr]
    local = pa.array(counts, pa.int64()).view(pa.timestamp(unit))
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest").cast(pa.int64()).to_numpy()
