"""How the command line looks: in pipes, on narrow terminals, without colour, in its help, before anything is there."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
import typer
from rich.console import Console

from pintgn.cli.app import app
from pintgn.cli.common import Bar, Grid, console
from pintgn.cli.data import describe
from pintgn.datasets.simulate import simulate
from tests.cli.test_learning import run

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-9]|4[0-9]|9[0-7])(?:;[0-9;]*)?m")


@pytest.fixture
def pintgn_command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PINTGN_CACHE", str(tmp_path / "cache"))
    return lambda *arguments: run(*arguments, monkeypatch=monkeypatch, capsys=capsys)


def commands():
    def walk(command, path):
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, [*path, name])
        yield path, command

    return list(walk(typer.main.get_command(app), []))


def on_terminal(*arguments, columns=60, **environment):
    """What a terminal of so many columns is sent."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "pintgn", *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
        env=clean | {"TERM": "xterm-256color"} | environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        sent = b""
        while True:
            try:
                chunk = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            sent += chunk
    os.close(ours)
    assert process.returncode == 0, sent.decode()
    return sent.decode()


# -- pipes and terminals -----------------------------------------------------------------------------------


def test_in_a_pipe_a_row_is_a_line_without_colours_or_blanks_behind_it(pintgn_command):
    for arguments in (("data", "list"), ("simulate", "shop", "-o", "shop.csv", "--events", "50")):
        code, out, err = pintgn_command(*arguments)
        assert code == 0
        assert not ESCAPE.search(out + err)
    _, out, _ = pintgn_command("data", "info", "shop.csv")
    for line in [*out.splitlines(), *pintgn_command("data", "list")[1].splitlines()]:
        assert line == line.rstrip()
    assert re.search(r"^events +50$", out, re.M)  # grep and cut find it
    wikipedia = next(line for line in pintgn_command("data", "list")[1].splitlines() if "wikipedia" in line)
    assert wikipedia.split()[-3:] == ["157,474", "9,227", "-"]  # whole, whatever COLUMNS says


def test_on_a_narrow_terminal_nothing_is_wider_than_it():
    sent = on_terminal("data", "list", columns=60)
    for line in ESCAPE.sub("", sent).replace("\r", "").splitlines():
        assert len(line) <= 60, line
    assert "1,293,103" in sent  # numbers are never cut or wrapped


def test_no_color_is_heeded(monkeypatch):
    def sent():
        terminal = Console(file=io.StringIO(), force_terminal=True, color_system="256", width=60)
        with Bar("reading", "events", terminal=terminal) as bar:
            bar(3, 5)
        return terminal.file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert COLOR.search(sent())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOR.search(sent())


def test_tables_fit_and_keep_numbers_whole():
    rows = [["a rather long description of something", "12,345,678"], ["short", "1"]]
    for width in (30, 60, 100):
        terminal = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO())
        terminal.print(Grid(rows, ["what", "count"], "A title", "a note"))
        text = ESCAPE.sub("", terminal.file.getvalue())
        assert "12,345,678" in text
        assert max(map(len, text.splitlines())) <= width


def test_a_bar_is_silent_where_there_is_no_terminal(capsys):
    with Bar("reading", "events") as bar:
        for done in range(5):
            bar(done, 5)
        bar.doing("saving")
    assert capsys.readouterr() == ("", "")


def test_a_log_is_described_alike_everywhere():
    text = str(describe(simulate("twins", events=300, seed=0)))
    assert text.startswith("Event log\nevents")
    assert text.endswith("quantile")
    assert not console().is_terminal


# -- help --------------------------------------------------------------------------------------------------


def examples(command):
    return (command.epilog or "").splitlines()


def test_every_command_has_its_section_and_its_line():
    top = next(command for path, command in commands() if not path)
    for name, command in top.commands.items():
        assert command.rich_help_panel, name
        assert len(command.short_help) <= 62, name


def test_help_is_whole_and_in_words(pintgn_command):
    for path, _ in commands():
        code, out, _ = pintgn_command(*path, "--help")
        assert code == 0
        assert not re.search(r"<\w+|[{}]", out.split("Examples:")[0]), f"{path}: {out}"
        assert "..." not in out.partition("Commands:")[2]
        for line in out.partition("Examples:")[0].splitlines():
            assert len(line) <= 80
    out = pintgn_command("train", "--help")[1]
    assert out.index("--model") < out.index("Reading DATA:") < out.index("--src") < out.index("Examples:")


def test_examples_are_commands_that_there_are():
    lines = [(" ".join(path), command, line) for path, command in commands() for line in examples(command)]
    assert len(lines) >= 10
    for name, command, line in lines:
        options = {option for param in command.params for option in getattr(param, "opts", [])}
        assert line.startswith(f"pintgn {name} ")
        assert {word for word in line.split() if word.startswith("-")} <= options, line


# -- before anything is there ------------------------------------------------------------------------------


def test_a_command_without_arguments_shows_its_help(pintgn_command):
    for path, command in commands():
        needs = any(getattr(param, "required", False) for param in command.params)
        if needs:
            code, out, err = pintgn_command(*path)
            assert code == 2
            assert "Usage: " in out + err
            assert all(line in out + err for line in examples(command))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "info", "uc"), "uc is neither a file nor a data set's name. Did you mean 'uci'"),
        (("data", "info", "evnts"), "Did you mean 'events'"),
        (("data", "info", "nothing.csv"), "there is no file nothing.csv"),
        (("data", "info", "empty.csv"), "empty.csv is empty"),
        (("train", "folder"), "has no Parquet files"),
        (("evaluate", "empty.csv"), "empty.csv holds no run: it is a file"),
        (("evaluate", "folder"), "folder holds no run: there is no run.json in it."),
        (("evaluate", "runs"), "Did you mean runs/mine?"),
        (("predict", "runs/mien", "pairs.csv"), "there is no such folder. Did you mean 'runs/mine'"),
        (("embed", "nowhere/at-all"), "there is no such folder"),
        (("theory", "gallery", "memry"), "Did you mean 'memory'"),
    ],
)
def test_what_is_not_there_is_said_in_one_line_with_a_way_on(pintgn_command, tmp_path, arguments, message):
    for folder in ("folder", "events", "runs/mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "runs/mine/run.json").write_text("{}")
    (tmp_path / "empty.csv").write_text("")
    code, out, err = pintgn_command(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1, err
