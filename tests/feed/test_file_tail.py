"""A growing file: every line once, whatever happens to the file, to the feeder or to the service."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time

import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.feed import file_tail
from pintgn.feed.file_tail import FileSource
from pintgn.feed.stream_source import Bookmark, short_name
from pintgn.serve.requests import LONGEST_KEY
from tests.feed.helpers import fed, killed_often
from tests.serve.helpers import TRAINED

HEADER = "src,dst,t\n"


def lines_of(columns, start=TRAINED, stop=None):
    rows = list(zip(columns["src"], columns["dst"], columns["t"], strict=True))[start:stop]
    return [f"{src},{dst},{t}\n" for src, dst, t in rows]


def stored(columns, start=TRAINED, stop=None):
    return list(zip(columns["src"], columns["dst"], columns["t"], strict=True))[start:stop]


@pytest.fixture
def opened(tmp_path):
    """Opens the same file again and again, as a new process would."""
    made = []

    def open_(name="events.csv", **more):
        while made:
            made.pop().close()
        path = tmp_path / name
        bookmark = Bookmark(tmp_path / "mark", str(path), "http://s")
        try:
            made.append(FileSource(path, bookmark, **more))
        except BadFile:
            bookmark.close()
            raise
        return made[-1]

    yield open_
    for one in made:
        one.close()


def read_all(source, most=10, commit=True):
    rows = []
    while True:
        batch = source.read(most, 0.0)
        if batch.rows and commit:
            source.commit(batch.position)
        rows += batch.rows
        if not batch.rows and batch.end:
            return rows


def test_a_half_written_line_waits_for_its_end(opened, tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "a,b,1\nc,d")
    source = opened()
    assert [row.values for row in read_all(source)] == [{"src": "a", "dst": "b", "t": "1"}]
    with open(path, "a") as file:
        file.write(",2")
    assert read_all(source) == []
    with open(path, "a") as file:
        file.write("3\n\n")
    assert [row.values["t"] for row in read_all(source)] == ["23"]
    assert read_all(opened()) == []


def test_keys_are_the_same_at_every_reading_and_differ_between_rows(opened, tmp_path):
    (tmp_path / "events.csv").write_text(HEADER + "".join(f"a,b,{k}\n" for k in range(100)))
    first = [row.key for row in read_all(opened(), most=7, commit=False)]
    assert first == [row.key for row in read_all(opened(), most=1)]
    assert len(set(first)) == 100
    assert read_all(opened()) == []
    assert [row.key for row in read_all(opened(from_start=True))] == first


@pytest.mark.parametrize("chunk", [1, 2, 7, 15, 16, 17, 10**6])
def test_chunks_of_any_size_make_the_same_rows(opened, tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(file_tail, "CHUNK", chunk)
    (tmp_path / "events.csv").write_text(HEADER + 'a,b,1\n"x ""y"" \n z",b,2\r\n\n\nc,é,3\nwrong,4\n')
    rows = read_all(opened(), most=2)
    assert [row.values.get("src") for row in rows] == ["a", 'x "y" \n z', "c", None]
    assert [row.error is None for row in rows] == [True, True, True, False]
    assert [int(row.key.rpartition(":")[2]) for row in rows] == [10, 16, 37, 44]


@pytest.mark.parametrize(("size", "fits"), [(99, True), (100, True), (101, False)])
def test_a_record_has_so_many_bytes_and_no_more(opened, tmp_path, monkeypatch, size, fits):
    monkeypatch.setattr(file_tail, "LONGEST_RECORD", 100)
    monkeypatch.setattr(file_tail, "CHUNK", 1)
    (tmp_path / "events.csv").write_text(HEADER + '"' + "x" * (size - 1))
    if fits:
        assert read_all(opened()) == []
    else:
        with pytest.raises(BadFile, match="Is a quote never closed"):
            read_all(opened())


def test_rotation_loses_nothing_also_while_nobody_reads(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(file_tail, "GRACE", 0.05)
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "a,b,1\n")
    source = opened()
    assert len(read_all(source)) == 1
    with open(path, "a") as old:  # the writer has not noticed yet
        os.rename(path, tmp_path / "events.csv.1")
        path.write_text(HEADER + "a,b,3\n")
        old.write("a,b,2\n")
    assert [row.values["t"] for row in read_all(source)] == ["2", "3"]
    with open(path, "a") as file:
        file.write("a,b,4\n")
    source.close()
    for k in (5, 6):  # two rotations while nobody reads
        time.sleep(0.02)
        shutil.move(tmp_path / "events.csv.1", tmp_path / f"events.csv.{k}.old")
        os.rename(path, tmp_path / "events.csv.1")
        path.write_text(HEADER + f"a,b,{k}\n")
    rows = read_all(opened())
    assert [row.values["t"] for row in rows] == ["4", "5", "6"]
    assert len({row.key.rpartition(":")[0] for row in rows}) == 3


def test_a_file_that_is_cut_short_begins_anew(opened, tmp_path):
    path = tmp_path / "events.ndjson"
    path.write_text('{"t": 1}\n{"t": 2}\n')
    source = opened("events.ndjson")
    first = read_all(source)
    path.write_text('{"t": 3}\n')
    second = read_all(source)
    path.write_text('{"t": 4}\n{"t": 5}\n{"t": 6}\n')  # longer than before, and yet another
    third = read_all(source)
    assert [row.values["t"] for row in first + second + third] == [1, 2, 3, 4, 5, 6]
    assert len({row.key for row in first + second + third}) == 6


def test_a_file_that_is_gone_is_not_passed_over(opened, tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "a,b,1\n")
    first = read_all(opened())
    path.unlink()
    path.write_text(HEADER + "a,c,1\n")
    with pytest.raises(BadFile, match="go on with the file as it is now: --from-start"):
        opened()
    rows = read_all(opened(from_start=True))
    assert len(rows) == 1
    assert rows[0].key != first[0].key


def test_a_copy_of_the_file_is_read_on(opened, tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "a,b,1\n")
    read_all(opened())
    path.rename(tmp_path.parent / "away.csv")
    shutil.copy(tmp_path.parent / "away.csv", path)
    with open(path, "a") as file:
        file.write("a,b,2\n")
    assert [row.values["t"] for row in read_all(opened())] == ["2"]


def test_a_bookmark_is_of_one_source_one_service_and_one_process(tmp_path):
    with_mark = Bookmark(tmp_path / "mark", "a", "http://s")
    with pytest.raises(BadFile, match="in use by another `pintgn feed`"):
        Bookmark(tmp_path / "mark", "a", "http://s")
    with_mark.save({"offset": 7})
    with_mark.close()
    for source, service in (("b", "http://s"), ("a", "http://other")):
        with pytest.raises(BadInput, match="Name another with --bookmark"):
            Bookmark(tmp_path / "mark", source, service)
    again = Bookmark(tmp_path / "mark", "a", "http://s")
    assert again.position == {"offset": 7}
    again.close()
    for text, said in (("{", "mark"), ('{"format": 99}', "newer pintgn")):
        (tmp_path / "mark").write_text(text)
        with pytest.raises(BadFile, match=said):
            Bookmark(tmp_path / "mark", "a", "http://s")
    with pytest.raises(BadFile, match="there is no folder"):
        Bookmark(tmp_path / "nowhere" / "mark", "a", "http://s")


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_killed_again_and_again_every_line_arrives_once(alive, columns, tmp_path, kind):
    """The feeder dies at random moments while the file grows and is rotated."""
    rows, path = lines_of(columns), tmp_path / f"events.{kind}"
    if kind == "ndjson":
        rows = [json.dumps({"src": s, "dst": d, "t": t}) + "\n" for s, d, t in stored(columns)]
    header, rng, done = HEADER if kind == "csv" else "", random.Random(0), threading.Event()

    def write():
        begin, rotations = 0, 0
        with open(path, "w") as file:
            file.write(header)
        while begin < len(rows):
            end = begin + rng.randint(1, 20)
            text = "".join(rows[begin:end])
            cut = rng.randint(0, len(text))
            with open(path, "a") as file:
                file.write(text[:cut])
                file.flush()
                time.sleep(0.03)
                file.write(text[cut:])
            begin = end
            if rng.random() < 0.08 and rotations < 3 and (tmp_path / f"{path.name}.bookmark").exists():
                rotations += 1
                os.rename(path, f"{path}.{rotations}")
                with open(path, "w") as file:
                    file.write(header)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    arguments = [path, alive.address, "--batch", "25"]
    count = 0
    while not done.is_set() or count < 12:
        count += killed_often(arguments, 1, seed=count)
        assert count < 500
    writer.join()
    code, said, noise = fed(*arguments, "--once", "--json")
    assert code == 0, noise
    told = json.loads(said)
    found = alive.end()
    assert [row[:3] for row in found] == stored(columns), "an event is missing, doubled or out of order"
    assert told["refused"] == 0


def test_reading_everything_again_adds_nothing(alive, columns, tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "".join(lines_of(columns)))
    count = len(columns["t"]) - TRAINED
    told = [json.loads(fed(path, alive.address, "--once", "--json", *more)[1]) for more in ((), (), ("--from-start",))]
    assert [(one["accepted"], one["duplicates"]) for one in told] == [(count, 0), (0, 0), (0, count)]
    (tmp_path / "events.csv.bookmark").unlink()
    assert json.loads(fed(path, alive.address, "--once", "--json")[1])["duplicates"] == count
    assert [row[:3] for row in alive.end()] == stored(columns)


@pytest.mark.parametrize("tail", [1, 8, 9, 10, 64])
def test_a_file_is_known_again_by_so_many_bytes(opened, tmp_path, monkeypatch, tail):
    monkeypatch.setattr(file_tail, "TAIL", tail)
    path = tmp_path / "events.ndjson"
    path.write_text('{"t": 1}\n')
    source = opened("events.ndjson")
    assert len(read_all(source)) == 1
    assert len(bytes.fromhex(source.bookmark.position["tail"])) == min(tail, 9)
    with open(path, "a") as file:
        file.write('{"t": 2}\n')
    assert [row.values["t"] for row in read_all(opened("events.ndjson"))] == [2]


def test_a_name_is_as_long_as_a_key_allows():
    for length in (119, 120, 121, 500):
        name = short_name("x" * length)
        assert len(name) == min(length, 120)
        assert (name == "x" * length) == (length <= 120)
    assert short_name("a" + "x" * 200) != short_name("b" + "x" * 200)
    assert 120 + len("/999999:9999999999999999999") < LONGEST_KEY
