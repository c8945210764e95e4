"""Time zones: those that are written behind a date, and the one that is assumed where none is written."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, suggest
from pintgn.events.columns import try_cast

OFFSET = re.compile(r"(?:Z|([+-])(\d\d):?(\d\d)?)$")
ZONED = r":\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$"
"""A date whose time of day has a zone behind it."""


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone by its name, or as an offset such as +02:00.

    >>> zone_of("Europe/Berlin"), zone_of("+02:00")
    (zoneinfo.ZoneInfo(key='Europe/Berlin'), datetime.timezone(datetime.timedelta(seconds=7200)))
    >>> zone_of("Berlin")
    Traceback (most recent call last):
    pintgn.errors.BadInput: there is no time zone 'Berlin'. Did you mean 'Europe/Berlin'?
    """
    if re.fullmatch(r"[+-]\d\d:\d\d", name):
        try:
            return datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo  # type: ignore[return-value]
        except ValueError:
            raise BadInput(f"there is no time zone {name!r}; offsets end at ±23:59.") from None
    try:
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
        return counts - int(offset.total_seconds()) * 1000 ** ("s", "ms", "us", "ns").index(unit)  # type: ignore[union-attr]
    local = pa.array(counts, pa.int64()).view(pa.timestamp(unit))
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest").cast(pa.int64()).to_numpy()


def partly_zoned(values: pa.Array, units: Sequence[str], zone: str) -> tuple[np.ndarray, str, set[str | None]] | None:
    """Counts, unit and zones of dates of which only some have a zone; None where they are something else."""
    has = pc.match_substring_regex(values, ZONED).to_numpy(zero_copy_only=False)
    with_zone, without = values.filter(pa.array(has)), values.filter(pa.array(~has))
    for unit in units:
        one, other = try_cast(with_zone, pa.timestamp(unit, "UTC")), try_cast(without, pa.timestamp(unit))
        if one is not None and other is not None:
            counts = np.empty(len(values), np.int64)
            counts[has] = one.cast(pa.int64()).to_numpy()
            counts[~has] = in_zone(other.cast(pa.int64()).to_numpy(), unit, zone)
            return counts, unit, {zone, *written_offsets(with_zone)}
    return None


def written_offsets(values: pa.Array) -> set[str | None]:
    """The distinct zone offsets that are written in a column of dates."""
    found: set[str | None] = set()
    for tail in pc.unique(pc.utf8_slice_codeunits(values, -6, 2**31 - 1)).to_pylist():
        sign, hours, minutes = OFFSET.search(tail).groups()  # type: ignore[union-attr]
        offset = f"{sign}{hours}:{minutes or '00'}" if sign else "UTC"
        found.add("UTC" if offset[1:] == "00:00" else offset)
    return found
