"""The command line as a person uses it: answers on stdout, one clear line on stderr, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pintgn.cli.app import app
from tests.cli.forked import pintgn


@pytest.fixture(scope="module")
def trades(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "trades.csv"
    path.write_text("buyer,seller,when,amount\nann,bob,10,1.5\nbob,cay,10,2\nann,cay,12,7.25\nann,ann,30,0\n")
    return path


COLUMNS = ("--src", "buyer", "--dst", "seller", "--time", "when")


def test_info_describes_a_users_own_file(trades):
    result = pintgn("data", "info", trades, *COLUMNS, "--features", "amount", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert (answer["events"], answer["nodes"], answer["self_loops"], answer["distinct_times"]) == (4, 3, 1, 3)
    assert answer["features"] == ["amount"]
    table = pintgn("data", "info", trades, *COLUMNS)
    assert "simultaneous events" in table.stdout
    assert table.stderr == "note: not used: amount (--features takes some, or 'all')\n"


def test_info_counts_enron_as_published(shared_data):
    result = pintgn("data", "info", shared_data("enron"))
    for figure in ("125,235", "184", "16,410", "22,632"):
        assert figure in result.stdout


def test_convert_keeps_ids_and_times_to_the_last_digit(tmp_path):
    lines = ["src,dst,t", "007,x,0.1", "a,007,0.30000000000000004", "9007199254740993,x,12345678.000000002"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    for step in (("in.csv", "mid.parquet"), ("mid.parquet", "out.csv")):
        result = pintgn("data", "convert", step[0], "-o", step[1], cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    written = [
        [cell.strip('"') for cell in line.split(",")] for line in (tmp_path / "out.csv").read_text().splitlines()
    ]
    assert written == [line.split(",") for line in lines]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "info", "nowhere.csv"), "nowhere.csv"),
        (("data", "info", "TRADES", "--src", "buyr"), "buyer"),
        (("data", "info", "x" * 5_000), "too long"),
        (("evaluate", "x" * 5_000), "too long"),
        (("keys", "add", "x" * 5_000, "ann"), "too long"),
        (("demo", "-o", "a/" * 1_500), "1,500 folders deep"),
        (("data", "fetch", "wikipeda"), "wikipedia"),
        (("simulate", "twin", "-o", "x.csv"), "twins"),
        (("simulate", "shop", "-o", "x.csv", "--set", "events=9"), "--events 9"),
        (("simulate", "shop", "-o", "x.csv", "--set", "world=9"), "pintgn simulate shop"),
        (("simulate", "shop", "-o", "x.csv", "--set", "self=9"), "self"),
        (("train", "TRADES", *COLUMNS, "--set", "dimm=3"), "dim"),
        (("train", "TRADES", *COLUMNS, "--model", "pnt"), "pint"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_two(arguments, message, trades, tmp_path):
    result = pintgn(*(trades if a == "TRADES" else a for a in arguments), cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_trace(trades):
    assert "Traceback" in pintgn("--debug", "data", "info", "nowhere.csv").stderr


def test_simulate_is_seeded(tmp_path):
    for name, seed in (("a.csv", 1), ("b.csv", 1), ("c.csv", 2)):
        assert pintgn("simulate", "repeat", "-o", name, "--events", 50, "--seed", seed, cwd=tmp_path).returncode == 0
    a, b, c = ((tmp_path / name).read_text() for name in ("a.csv", "b.csv", "c.csv"))
    assert a == b != c


def test_version_and_help():
    from pintgn import __version__

    assert pintgn("--version").stdout.strip() == f"pintgn {__version__}"
    assert pintgn().returncode in (0, 2)
    text = pintgn("--help").stdout
    for command in ("data", "simulate", "train"):
        assert command in text


def test_every_command_and_option_has_a_help_text():
    import typer

    def walk(command, path):
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, [*path, name])
        if not hasattr(command, "commands"):
            yield " ".join(path), command

    for name, command in walk(typer.main.get_command(app), ["pintgn"]):
        assert command.help, f"{name} has no help"
        for option in command.params:
            assert getattr(option, "help", None) or option.name in ("help",), f"{name} {option.name} has no help"


def test_a_closed_pipe_is_not_an_error(tmp_path, trades):
    command = f"{sys.executable} -m pintgn data info {trades} --src buyer --dst seller --time when | head -n 1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in result.stderr
