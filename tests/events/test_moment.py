"""A time as people and programs say it: every form means the same, and what does not fit is refused in one line."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from pintgn import read_events, to_snapshots
from pintgn.errors import BadInput
from pintgn.events.moment import LONGEST, read_duration, read_time
from pintgn.events.schema import TimeUnit
from pintgn.interop import networkx_snapshots

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
NOON = 1_710_590_400  # 2024-03-16 12:00 UTC
PLAIN, ZONED, NUMBERS = TimeUnit("s"), TimeUnit("s", "+02:00"), TimeUnit()
CET = datetime.timezone(datetime.timedelta(hours=1))

WITHOUT_ZONE = {
    "int": NOON,
    "float": float(NOON),
    "int64": np.int64(NOON),
    "float64": np.float64(NOON),
    "0-d array": np.array(NOON),
    "digits": str(NOON),
    "decimal text": f" {NOON}.0 ",
    "ISO text": "2024-03-16T12:00",
    "with a blank": "2024-03-16 12:00:00",
    "datetime": datetime.datetime(2024, 3, 16, 12),
    "Timestamp": pd.Timestamp("2024-03-16 12:00"),
    "datetime64[m]": np.datetime64("2024-03-16T12:00"),
    "datetime64[ns]": np.datetime64("2024-03-16T12:00:00", "ns"),
}
WITH_ZONE = {
    "ISO text": "2024-03-16T12:00Z",
    "offset": "2024-03-16T14:00+02:00",
    "datetime": datetime.datetime(2024, 3, 16, 13, tzinfo=CET),
    "Timestamp": pd.Timestamp("2024-03-16 08:00", tz="America/New_York"),
}
DAYS = {
    "ISO text": "2024-03-16",
    "date": datetime.date(2024, 3, 16),
    "datetime64[D]": np.datetime64("2024-03-16"),
    "count": NOON - 43_200,
}


@pytest.mark.parametrize("form", WITHOUT_ZONE)
def test_every_form_means_the_same(form):
    found = read_time(WITHOUT_ZONE[form], PLAIN, INT)
    assert found == NOON
    assert found.dtype == INT


@pytest.mark.parametrize("form", WITH_ZONE)
def test_with_a_zone_the_instant_counts(form):
    assert read_time(WITH_ZONE[form], ZONED, INT) == NOON
    with pytest.raises(BadInput, match="dates without a time zone, given 2024|dates without a time zone, given '2024"):
        read_time(WITH_ZONE[form], PLAIN, INT)


@pytest.mark.parametrize("form", DAYS)
def test_a_day_is_its_beginning(form):
    assert read_time(DAYS[form], PLAIN, INT) == NOON - 43_200


def test_a_year_and_a_month_of_numpy_are_their_beginnings():
    assert read_time(np.datetime64("2024"), PLAIN, INT) == read_time("2024-01-01", PLAIN, INT)
    assert read_time(np.datetime64("2024-03"), PLAIN, INT) == read_time("2024-03-01", PLAIN, INT)


@pytest.mark.parametrize(
    "value", ["2024-03-16", datetime.date(2024, 3, 16), np.datetime64("2024-03-16"), datetime.datetime(2024, 3, 16)]
)
def test_where_the_log_has_zones_a_date_without_one_is_refused(value):
    with pytest.raises(
        BadInput, match=r"dates with a time zone, given .*2024-03-16.*Say it, as in 2024-(01-31T12:00\+|03-16T00:00Z)"
    ):
        read_time(value, ZONED, INT)


@pytest.mark.parametrize(
    "value", ["2024-03-16", datetime.date(2024, 3, 16), np.datetime64("2024-03-16"), "2024-03-16T00:00"]
)
def test_a_bound_without_a_zone_is_in_the_zone_that_dates_are_shown_in(value):
    midnight = NOON - 43_200
    for zone, east in (("UTC", 0), ("Europe/Berlin", 3_600), ("+05:30", 19_800)):
        unit = TimeUnit("s", zone)
        found = read_time(value, unit, INT, bound=True)
        assert found == midnight - east
        assert unit.show(found).startswith("2024-03-16 00:00:00")


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/New_York", "+05:30"])
@pytest.mark.parametrize("unit", [None, "s", "ms", "us", "ns"])
@pytest.mark.parametrize("written", [None, "%d.%m.%Y", "own unit"])
def test_what_is_printed_is_read_back(unit, zone, written):
    if unit is None and zone is not None:
        pytest.skip("numbers have no zone")
    kind = TimeUnit(unit, zone, unit if written == "own unit" else written, zone)
    per = 1000 ** ("s", "ms", "us", "ns").index(unit or "s")
    seconds = [0, NOON, NOON - 43_200, 1_729_990_800, 1_729_994_400, -3_000_000_000]  # 27.10.2024, 3 o'clock, twice
    for count in [second * per + rest for second in seconds for rest in {0, 1, per // 2, per - 1} if rest < per]:
        text = kind.show(np.int64(count))
        assert read_time(text, kind, INT) == count, text
        assert read_time(text, kind, INT, bound=True) == count, text


@pytest.mark.parametrize("value", ["2024-03-16", datetime.date(2024, 3, 16), np.datetime64("2024-03-16"), "soon"])
def test_where_times_are_numbers_a_date_is_refused(value):
    with pytest.raises(BadInput, match="times here are numbers, given "):
        read_time(value, NUMBERS, INT)


@pytest.mark.parametrize(
    "value",
    [True, np.True_, None, [1], {}, "soon", "", "nan", "inf", "1_000", "٣", "2024-13-01", "2024-03", b"5", object(), 1j,
     np.timedelta64(5, "s"), datetime.time(12), datetime.timedelta(1), np.array([5]), "2024-03-16T12:00:00.1234567891"],
)  # fmt: skip
def test_what_is_no_time_is_refused(value):
    with pytest.raises(BadInput, match="neither a number nor a date such as 2024-01-31"):
        read_time(value, PLAIN, INT)
    with pytest.raises(BadInput, match="times here are numbers"):
        read_time(value, NUMBERS, INT)


@pytest.mark.parametrize("value", [np.datetime64("NaT"), pd.NaT])
def test_no_time_at_all_is_refused(value):
    with pytest.raises(BadInput, match="NaT is neither"):
        read_time(value, PLAIN, INT)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("inf"), -float("inf")])
def test_numbers_are_finite(value):
    for unit in (PLAIN, NUMBERS):
        with pytest.raises(BadInput, match="a time is finite"):
            read_time(value, unit, INT)
    with pytest.raises(BadInput, match="a time is finite"):
        read_time(value, NUMBERS, FLOAT)


def test_nothing_is_rounded_in_silence():
    for value, unit, dtype, said in (
        (1.5, NUMBERS, INT, "times here are whole numbers, given 1.5"),
        ("0.5", NUMBERS, INT, "times here are whole numbers, given '0.5'"),
        (2**53 + 1, NUMBERS, FLOAT, "cannot hold 9007199254740993 to the last digit"),
        (2**63, NUMBERS, INT, "within"),
        (-(2**63) - 1, NUMBERS, INT, "within"),
        ("2024-03-16T12:00:00.5", PLAIN, INT, "counted in s, which cannot hold '2024-03-16T12:00:00.5'"),
        (pd.Timestamp(1), TimeUnit("us"), INT, "counted in us"),
        ("2024-03-16T12:00:00.123456789", TimeUnit("us"), INT, "counted in us"),
        (np.datetime64(1, "ps"), TimeUnit("ns"), INT, "0001 is neither"),
        (np.datetime64(1, "fs"), TimeUnit("ns"), INT, "0001 is neither"),
        (np.datetime64(2**62, "Y"), PLAIN, INT, "is neither"),
        ("9999-01-01", TimeUnit("ns"), INT, "within"),
    ):
        with pytest.raises(BadInput, match=said):
            read_time(value, unit, dtype)
    assert read_time(2**63 - 1, NUMBERS, INT) == 2**63 - 1
    assert read_time(2**53, NUMBERS, FLOAT) == 2**53
    assert read_time("2024-03-16T12:00:00.123456789", TimeUnit("ns"), INT) == NOON * 10**9 + 123_456_789
    assert read_time(pd.Timestamp("2024-03-16 12:00:00.000000001"), TimeUnit("ns"), INT) == NOON * 10**9 + 1
    assert read_time("1960-01-01T00:00:00.25", TimeUnit("ms"), INT) == -315_619_199_750


@pytest.mark.parametrize("text", ["2024", "202403", "20240316"])
def test_digits_that_may_be_a_date_are_not_taken_for_a_count(text):
    with pytest.raises(BadInput, match=f"'{text}' may be a date or a count"):
        read_time(text, PLAIN, INT)
    assert read_time(text, NUMBERS, INT) == int(text)
    assert read_time(int(text), PLAIN, INT) == int(text)
    assert read_time(text, TimeUnit("s", written="s"), INT) == int(text)  # as the file writes them


def test_a_date_may_be_written_as_the_file_writes_it():
    german = TimeUnit("s", written="%d.%m.%Y %H:%M")
    assert read_time("16.03.2024 12:00", german, INT) == NOON
    assert read_time("2024-03-16T12:00", german, INT) == NOON
    assert read_time("20240316", TimeUnit("s", written="%Y%m%d"), INT) == NOON - 43_200


def test_a_bound_that_the_log_cannot_hold_counts_as_the_next_later():
    assert read_time(2.5, NUMBERS, INT, bound=True) == 3
    assert read_time(-2.5, NUMBERS, INT, bound=True) == -2
    assert read_time("2024-03-16T12:00:00.001", PLAIN, INT, bound=True) == NOON + 1
    assert read_time(float("inf"), NUMBERS, INT, bound=True) == np.inf
    assert read_time(1e300, NUMBERS, INT, bound=True) == np.inf
    assert read_time(2**63, NUMBERS, INT, bound=True) == np.inf
    assert read_time(-(2**64), NUMBERS, INT, bound=True) == -np.inf
    with pytest.raises(BadInput):
        read_time(float("nan"), NUMBERS, INT, bound=True)


@pytest.mark.parametrize("size", [LONGEST - 1, LONGEST, LONGEST + 1, 100_000])
def test_a_text_of_any_length_ends_in_one_short_line(size):
    with pytest.raises(BadInput) as error:
        read_time("9" * size, PLAIN, INT)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "unit", "length"),
    [
        ("P30D", "s", 30 * 86_400),
        ("PT1H", "ms", 3_600_000),
        ("P1W", "s", 604_800),
        ("P1DT12H30M0.5S", "ms", ((36 * 60 + 30) * 60 + 0.5) * 1000),
        ("PT0.5S", "s", 0.5),
        (datetime.timedelta(hours=2), "us", 7_200_000_000),
        (np.timedelta64(3, "D"), "s", 3 * 86_400),
        ("60", "s", 60),
        (60, None, 60),
        (" 7.5 ", None, 7.5),
        ("inf", "s", float("inf")),
    ],
)
def test_lengths_of_time_are_read_in_the_unit_of_the_log(value, unit, length):
    assert read_duration(value, TimeUnit(unit)) == length


@pytest.mark.parametrize("value", ["P", "PT", "P1M", "P1Y", "30 days", "", None, True, [1]])
def test_what_is_no_length_of_time_is_refused(value):
    with pytest.raises(BadInput, match="is no length of time, such as P30D, 10m or a number"):
        read_duration(value, TimeUnit("s"))


def test_a_duration_needs_dates():
    with pytest.raises(BadInput, match="times here are numbers.*If they count seconds, write 3600"):
        read_duration("PT1H", TimeUnit())


def test_snapshots_and_windows_take_durations():
    log = read_events({"src": [1, 2, 1], "dst": [2, 1, 2], "t": ["2024-01-01", "2024-01-02", "2024-01-04"]})
    assert len(to_snapshots(log, "P1D")) == 4
    graphs = [graph for _, graph in networkx_snapshots(log, ["2024-01-05"], window="P2D")]
    assert graphs[0].number_of_edges() == 1
