"""Tables that nobody prepared, on the command line: what is read, what is said, what is advised."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest

import pintgn
from tests.cli.test_learning import run

N = 400


@pytest.fixture
def ask(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(*arguments, monkeypatch=monkeypatch, capsys=capsys)


def write(path, *columns, head="", delimiter=","):
    rows = [delimiter.join(map(str, row)) for row in zip(*columns, strict=True)]
    with open(path, "w") as file:
        file.write("\n".join([*([head] if head else []), *rows]) + "\n")


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    return {
        "src": rng.integers(0, 60, N),
        "dst": rng.integers(0, 90, N),
        "t": np.sort(rng.integers(1_600_000_000, 1_610_000_000, N)),
        "year": np.sort(rng.integers(1990, 2010, N)),
        "rating": rng.integers(1, 6, N),
        "trust": rng.integers(-10, 11, N),
        "weight": rng.integers(1, 900, N),
        "w": rng.random(N).round(2),
        "late": rng.permutation(rng.integers(1_600_000_000, 1_610_000_000, N)),
        "by_src": np.sort(rng.integers(0, 60, N)),
        "count": np.arange(N),
        "day": rng.permutation(N),
        "kind": rng.choice(["a", "b", "c", "d"], N),
    }


def test_advice_on_a_file_without_a_header_names_its_option(ask, columns):
    write("log.csv", *(columns[name] for name in ("src", "dst", "t")))
    code, _, err = ask("data", "info", "log.csv")
    assert (code, err.strip().endswith("from 0: --no-header --src N --dst N --time N")) == (2, True)
    code, _, err = ask("data", "info", "log.csv", *shlex.split("--no-header --src 0 --dst 1 --time 2"))
    assert code == 0, err


def test_files_of_konect_and_snap_need_no_options(ask, columns):
    ends = [columns[name] + 1 for name in ("src", "dst")]
    body = "".join(f"{a} {b}\t1\t{t}\n" for a, b, t in zip(*ends, columns["t"], strict=True))
    for kind, nodes in (("asym", len(np.unique(ends))), ("bip", sum(len(np.unique(one)) for one in ends))):
        with open("out.net", "w") as file:
            file.write(f"% {kind} unweighted\n{body}")
        code, out, err = ask("data", "info", "out.net", "--json")
        assert code == 0, err
        assert json.loads(out)["nodes"] == nodes
        assert "taking '0' as --src, '1' as --dst, '3' as --time" in err
    write("snap.txt", *ends, columns["t"], head="# Nodes: 90\n# FromNodeId\tToNodeId\tTime", delimiter="\t")
    code, out, err = ask("data", "info", "snap.txt")
    assert code == 0, err
    assert "taking 'FromNodeId' as --src" in err


def test_columns_left_unused_are_listed(ask, columns):
    write("log.csv", *(columns[name] for name in ("src", "dst", "t", "w", "kind")), head="src,dst,t,price,kind")
    assert "note: not used: price, kind (--features takes some, or 'all')" in ask("data", "info", "log.csv")[2]
    assert "not used: kind (" in ask("data", "info", "log.csv", "--features", "price")[2]
    ask("data", "info", "log.csv", "--features", "all")  # compiling kernels is said, once
    assert ask("data", "info", "log.csv", "--features", "all")[2] == ""
    wide = ",".join(f"c{k}" for k in range(10))
    write("wide.csv", *(columns[name] for name in ("src", "dst", "t", *["w"] * 10)), head=f"src,dst,t,{wide}")
    assert "c6, c7 and 2 more (" in ask("data", "info", "wide.csv")[2]
    ask("data", "convert", "log.csv", "-o", "log.parquet", "--features", "all")
    ask("data", "info", "log.parquet")  # the same
    assert ask("data", "info", "log.parquet")[2] == ""


def test_every_option_of_reading_is_on_the_command_line_and_in_python():
    import dataclasses
    import inspect

    from pintgn.cli.source import OPTIONS
    from pintgn.ingest.read_options import GROUPS

    python = set(inspect.signature(pintgn.read_events).parameters) - {"source", "like", "progress", *GROUPS}
    python |= {field.name for group in GROUPS.values() for field in dataclasses.fields(group)}
    assert set(OPTIONS) == python - {"predict"} | {"query"}


def test_a_dirty_table_is_read_with_what_the_errors_say(ask):
    with open("shop.csv", "w") as file:
        file.write("exported on Monday\nkunde;artikel;zeit;preis\n")
        for k in range(40):
            when = f"2024-01-{k % 28 + 1:02}T10:00" + ("+01:00" if k % 3 else "")
            file.write(f"k{k % 7};a{k % 5};{when};1.2{k:02},50\n")
        file.write(";a1;2024-01-29T10:00;3,5\nk1;a1;bald;3,5\nk0;a0;2024-01-01T10:00;1.200,50\n")
    options = shlex.split("--skip-lines 1 --src kunde --dst artikel --time zeit --features preis")
    for advice in ("--skip-bad", "--assume-zone Europe/Berlin", "--decimal ,"):
        code, _, err = ask("data", "info", "shop.csv", *options)
        assert (code, advice in err) == (2, True), err
        options += advice.split()
    options.append("--drop-duplicates")
    code, out, err = ask("data", "info", "shop.csv", *options)
    assert code == 0, err
    assert "note: skipped 2 of 43 rows: 1 without 'kunde' (line 43); 1 with no time in 'zeit' (line 44: 'bald')." in err
    assert "the events were sorted by time." in err
    assert "note: dropped 1 of 41 events, which are equal to an earlier one." in err
    assert re.search(r"^events +40$", out, re.M)
    code, _, err = ask("data", "info", "shop.csv", *options, "--max-bad", "1")
    assert (code, "2 of 43 rows cannot be used, more than the 1 that may be skipped" in err) == (2, True)
    code, _, err = ask("data", "info", "shop.csv", *options, "--no-sort")
    assert (code, "Sort the events by time" in err) == (2, True)


def test_encodings_and_names_of_columns_are_said_on_the_command_line(ask, columns):
    write("log.csv", columns["src"], columns["dst"], columns["t"], columns["kind"])
    names = ("--columns", "who, whom, when, kind", "--src", "who", "--dst", "whom", "--time", "when")
    code, out, err = ask("data", "info", "log.csv", *names, "--features", "kind", "--encoding", "kind=code", "--json")
    assert code == 0, err
    assert json.loads(out)["features"] == ["kind"]
    code, out, err = ask("data", "info", "log.csv", *names, "--features", "kind", "--encoding", "hash", "--json")
    assert len(json.loads(out)["features"]) == 32
