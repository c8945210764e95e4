"""A stranger with a file that nobody prepared gets from there to a service by what the program itself says.

Each step follows the advice in the message before it, and nothing else: columns with names of their own in another
charset, text ids, milliseconds, rows in no order.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import pintgn
from tests.cli.test_learning import run

HEAD = ["Zeit", "Käufer", "Artikel", "Kanal"]


@pytest.fixture
def ask(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(*arguments, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture
def rows():
    """A shop's events in the stranger's own terms, shuffled: (unix seconds, buyer, article, channel)."""
    log = pintgn.simulate("shop", events=600, seed=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(log))
    names = [f"K-{number:05d}" for number in rng.permutation(log.nodes)]
    channel = rng.choice(["netz", "laden"], len(log))
    return [(int(log.t[k]), names[log.src[k]], names[log.dst[k]], str(channel[k])) for k in order]


def write(path, rows, time, head=HEAD, charset="latin-1", delimiter=";"):
    with open(path, "w", encoding=charset, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([*([head] if head else []), *([time(t), *rest] for t, *rest in rows)])


def follow(ask, command, *data, columns="", most=6):
    """Do what each error advises, and name the columns when asked, until the command works; what was added."""
    taken: list[str] = []
    for _ in range(most):
        code, out, err = ask(*command, *data, *taken)
        if code == 0:
            return taken, out, err
        told = err.strip().splitlines()[-1]
        assert "Traceback" not in err
        if "has no column 'src'. There are: " in told and "--src" in told:
            taken += shlex.split(columns)
        elif found := re.search(r"\((--[a-z]+(?: [^)]+)?)\)", told):
            taken += shlex.split(found[1])
        elif found := re.search(r"--time-format '([^']*)'", told):
            taken += ["--time-format", found[1]]
        else:
            pytest.fail(f"no advice in: {told}")
    return pytest.fail(f"still not there after {taken}")


@pytest.mark.learning
def test_from_a_file_nobody_prepared_to_a_service(ask, rows, tmp_path, ctrl_c):
    write("käufe.csv", rows, lambda t: t * 1000)
    advice, out, _ = follow(ask, ("data", "info"), "käufe.csv", columns="--src Käufer --dst Artikel --time Zeit")
    assert advice == [
        "--charset", "latin-1", "--src", "Käufer", "--dst", "Artikel", "--time", "Zeit",
    ]  # fmt: skip
    assert re.search(r"^events +600$", out, re.M)
    hint = re.search(r"\((--time-format) (\w+)\) +2024-01-01", out)  # "the first as a date"
    assert hint, out
    advice += hint.groups()

    quick = ("--epochs", "1", "--set", "dim=8")
    code, out, err = ask("train", "käufe.csv", *advice, *quick)
    assert code == 0, err
    assert "Test part" in out
    page = re.search(r"report: (\S+\.html)", err)
    assert page, err
    assert (tmp_path / page[1]).stat().st_size > 10_000
    lines = [line for line in err.splitlines() if line.startswith("  pintgn ") or "| pintgn " in line]
    words = [shlex.split(line.rpartition("pintgn ")[2]) for line in lines]
    steps = {one[0]: one for one in words}
    assert set(steps) == {"evaluate", "recommend", "explain", "serve"}
    folder = steps["serve"][1]

    code, out, err = ask(*steps["evaluate"])
    assert code == 0, err
    assert "historical negatives" in out
    assert "MRR" in out

    code, out, err = ask(*steps["explain"])
    assert code == 0, err
    assert steps["explain"][2] in out

    buyer = rows[0][1]
    code, out, err = ask(*steps["recommend"])
    assert code == 0, err
    assert "against one random" in out
    code, out, err = ask("recommend", folder, "--src", f"{buyer}0", "-k", "1")
    assert f"note: '{buyer}0' has never been seen" in err

    write("PAIRS.csv", rows[:3], lambda t: t * 1000)  # with times of the past, as a stranger would
    advice, out, _ = follow(ask, ("predict", folder, "PAIRS.csv"))
    assert advice[:3] == ["--charset", "latin-1", "--at"]
    found = list(csv.DictReader(io.StringIO(out)))
    assert [(row["Käufer"], row["Artikel"]) for row in found] == [row[1:3] for row in rows[:3]]

    serves(tmp_path, steps["serve"], {"src": buyer, "dst": "ganz neu", "t": 1000 * max(t for t, *_ in rows) + 60_000})


def serves(place, command, event):
    """The service takes an event and answers about it, and stops without losing it."""
    full = [sys.executable, "-m", "pintgn", *command, "--port", "0", "--json"]
    with subprocess.Popen(full, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            told = process.stdout.readline()
            assert told, process.stderr.read()
            address = json.loads(told)["address"]
            body = json.dumps({"events": [event]}).encode()
            request = urllib.request.Request(f"{address}/events", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert json.load(answer)["accepted"] == 1
            with urllib.request.urlopen(f"{address}/recommend/{event['src']}?k=2", timeout=30) as answer:
                assert answer.status == 200
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT)


@pytest.mark.parametrize("format", ["%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y/%m/%d %H:%M"])
def test_dates_of_other_countries_are_read_as_the_error_says(ask, rows, format):
    write("log.csv", rows, lambda t: str(np.datetime64(t, "s").item().strftime(format)), delimiter=",")
    advice, out, _ = follow(ask, ("data", "info"), "log.csv", columns="--src Käufer --dst Artikel --time Zeit")
    assert advice[advice.index("--time-format") + 1] == format
    assert "2024-01-01" in out


def test_a_file_without_a_header_is_read_by_position(ask, rows):
    write("log.tsv", rows, lambda t: t, head=None, delimiter="\t", charset="utf-8")
    _, out, _ = follow(ask, ("data", "info"), "log.tsv", columns="--no-header --src 1 --dst 2 --time 0")
    assert re.search(r"^events +600$", out, re.M)


def test_usual_names_need_no_options(ask, rows):
    write("log.csv", sorted(rows), lambda t: t, head=["timestamp", "user_id", "item_id", "channel"], charset="utf-8")
    code, _, err = ask("data", "info", "log.csv")
    assert code == 0, err
    assert "taking 'user_id' as --src, 'item_id' as --dst, 'timestamp' as --time" in err
