"""Times in formats of their own, and columns found by their names or their looks."""

from __future__ import annotations

import numpy as np
import pytest

import pintgn
from pintgn import FileFormat, read_events
from pintgn.errors import BadInput
from pintgn.events.timeformat import check_format, likely_formats, since_1970
from pintgn.ingest.guess import by_name

SECONDS = [1_735_065_000, 1_735_065_061, 1_735_152_000]  # 2024-12-24 18:30:00 and later
WRITTEN = {
    "%d.%m.%Y %H:%M:%S": ["24.12.2024 18:30:00", "24.12.2024 18:31:01", "25.12.2024 18:40:00"],
    "%m/%d/%Y %I:%M:%S %p": ["12/24/2024 06:30:00 PM", "12/24/2024 06:31:01 PM", "12/25/2024 06:40:00 PM"],
    "%d %b %Y %H:%M:%S %z": ["24 Dec 2024 19:30:00 +0100", "24 Dec 2024 18:31:01 +0000", "25 Dec 2024 18:40:00 +0000"],
    "%Y%m%d%H%M%S": ["20241224183000", "20241224183101", "20241225184000"],
    "s": [str(second) for second in SECONDS],
}


def events(times):
    return {"src": ["a", "b", "c"], "dst": ["b", "c", "a"], "t": times}


def csv(path, times):
    rows = zip(*events(times).values(), strict=True)
    path.write_text("src,dst,t\n" + "".join(f"{src},{dst},{t}\n" for src, dst, t in rows))
    return path


@pytest.mark.parametrize("format", WRITTEN)
def test_a_format_is_read_from_files_and_arrays_alike(tmp_path, format):
    for source in (csv(tmp_path / "a.csv", WRITTEN[format]), events(WRITTEN[format])):
        log = read_events(source, format=FileFormat(time_format=format))
        assert log.t.tolist() == SECONDS
        assert log.schema.time.unit == "s"
        assert "2024-12-24 18:30:00" in repr(log)


def test_numbers_since_1970_become_dates_in_their_own_unit():
    log = read_events(events(np.array(SECONDS) * 1000), format=FileFormat(time_format="ms"))
    assert (log.schema.time.unit, log.t[0]) == ("ms", SECONDS[0] * 1000)
    with pytest.raises(BadInput, match=r"row 1 has t=2.5, which is not written a whole number of s"):
        read_events(events([1.0, 2.5, 3.0]), format=FileFormat(time_format="s"))


def test_fractions_of_a_second_keep_their_digits():
    written = ["24.12.2024 18:30:00.000001", "24.12.2024 18:30:00.250000", "24.12.2024 18:30:01.000000"]
    log = read_events(events(written), format=FileFormat(time_format="%d.%m.%Y %H:%M:%S.%f"))
    assert log.schema.time.unit == "us"
    assert np.diff(log.t).tolist() == [249_999, 750_000]


def test_a_later_file_is_read_in_the_same_format_or_as_iso(tmp_path):
    first = read_events(events(WRITTEN["%d.%m.%Y %H:%M:%S"]), format=FileFormat(time_format="%d.%m.%Y %H:%M:%S"))
    first.save(tmp_path / "log.parquet")
    kept = pintgn.EventLog.open(tmp_path / "log.parquet")
    assert kept == first
    for times in (["26.12.2024 00:00:00"] * 3, ["2024-12-26T00:00:00"] * 3):
        for source in (events(times), csv(tmp_path / "later.csv", times)):
            assert read_events(source, like=kept).t.tolist() == [1_735_171_200] * 3


def test_a_number_of_a_later_file_counts_as_in_the_first():
    first = read_events(events(np.array(SECONDS)), format=FileFormat(time_format="s"))
    assert read_events(events(["1735171200"] * 3), like=first).t.tolist() == [1_735_171_200] * 3


def test_a_row_that_is_written_otherwise_is_named(tmp_path):
    path = csv(tmp_path / "a.csv", ["24.12.2024", "12/25/2024", "26.12.2024"])
    with pytest.raises(BadInput, match=r"line 3 has t='12/25/2024', which is not written as %d\.%m\.%Y"):
        read_events(path, format=FileFormat(time_format="%d.%m.%Y"))
    with pytest.raises(BadInput, match=r"line 3"):
        read_events(
            csv(tmp_path / "b.csv", ["24 Dec 2024", "never", "26 Dec 2024"]), format=FileFormat(time_format="%d %b %Y")
        )


def test_an_unreadable_time_says_how_it_may_be_written(tmp_path):
    with pytest.raises(BadInput, match=r"line 2 has t='24\.12\.2024'.*--time-format '%d\.%m\.%Y'"):
        read_events(csv(tmp_path / "a.csv", ["24.12.2024", "25.12.2024", "26.12.2024"]))
    with pytest.raises(BadInput, match=r"'%m/%d/%Y' or '%d/%m/%Y'"):
        read_events(csv(tmp_path / "b.csv", ["03/04/2024", "03/05/2024", "03/06/2024"]))
    with pytest.raises(BadInput, match="neither a number nor an ISO-8601 date"):
        read_events(csv(tmp_path / "c.csv", ["soon", "later", "never"]))


def test_formats_that_are_none_are_refused():
    for given in ("hours", "%Q", "m"):
        with pytest.raises(BadInput, match="time_format="):
            check_format(given)
    assert check_format("%d.%m.%Y") == "%d.%m.%Y"


def test_a_guess_never_takes_small_numbers_for_dates():
    assert since_1970(0, 10_000) is None
    assert since_1970(1.6e9, 1.7e9) == "s"
    assert likely_formats("12345") == []


# -- columns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["user_id", "item_id", "timestamp", "state_label"], ["user_id", "item_id", "timestamp"]),
        (["u", "i", "ts", "label"], ["u", "i", "ts"]),
        (["When", "From", "To", "Amount"], ["From", "To", "When"]),
        (["source", "target", "date", "time"], ["source", "target", "time"]),
        (["meta.day", "edge.from", "edge.to"], ["edge.from", "edge.to"]),
    ],
)
def test_usual_names_are_known(names, found):
    assert list(by_name(names).values()) == found


def test_nothing_is_known_of_names_that_could_be_either():
    assert by_name(["src", "SRC", "b"]) == {}
    assert by_name(["Zeit", "Sender", "Empfänger"]) == {"src": "Sender"}
