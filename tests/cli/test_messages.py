"""No dead ends: every message says what to do, and every command that one suggests works when it is pasted."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import pintgn
from pintgn.cli.source import flags
from pintgn.ingest import sources
from tests.cli.test_learning import run

QUICK = ("--epochs", "1", "--set", "dim=8", "--no-report")


@pytest.fixture
def ask(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(*arguments, monkeypatch=monkeypatch, capsys=capsys)


def paste(command, cwd):
    """A line as a shell gets it, with `pintgn` being this one."""
    line = re.sub(r"\bpintgn (?=[a-z])", f"{shlex.quote(sys.executable)} -m pintgn ", command)
    return subprocess.run(["bash", "-c", line], cwd=cwd, capture_output=True, text=True)


def odd_shop(path="my shop.csv"):
    """Columns, ids and a file whose names need quotation marks."""
    log = pintgn.simulate("shop", events=500, seed=0)
    with open(path, "w") as file:
        file.write("the buyer;thing;when\n")
        ids = log.ids.decode().to_pylist()
        for src, dst, t in zip(log.src, log.dst, log.t, strict=True):
            file.write(f"{ids[src]}, it's 50%;{ids[dst]} $HOME;{t}\n")
    return [path, "--src", "the buyer", "--dst", "thing", "--time", "when"]


@pytest.mark.learning
@pytest.mark.slow  # tests/cli/test_stranger.py follows the same lines
def test_next_lines_of_training_and_tuning_work_when_pasted(ask, tmp_path):
    data = odd_shop()
    code, _, err = ask("train", *data, *QUICK, "-o", "a run")
    assert code == 0, err
    lines = [line.strip() for line in err.partition("Next:")[2].splitlines() if line.strip()]
    assert [re.search(r"pintgn (\w+)", line)[1] for line in lines] == ["evaluate", "recommend", "explain", "serve"]
    for line in lines[:-1]:  # tests/cli/test_stranger.py starts the service
        done = paste(line, tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        assert "never been seen" not in done.stderr
        assert done.stdout
    code, _, err = ask("tune", *data, "--trials", "1", "--set", "epochs=1", "--set", "dim=8", "-o", "a search")
    assert code == 0, err
    line = re.search(r"Next: (pintgn train .*)", err)[1]
    done = paste(f"{line} --dry-run", tmp_path)
    assert done.returncode == 0, (line, done.stderr)


@pytest.mark.learning
@pytest.mark.slow
def test_next_lines_of_a_run_with_relations_work_when_pasted(ask, tmp_path):
    rows = [f"p{k % 9},p{(k * 7 + 3) % 11},{k},{('it is', 'likes, a lot')[k % 2]}" for k in range(300)]
    Path("facts.csv").write_text(
        "who,whom,when,how\n" + "\n".join(row.replace("likes, a lot", '"likes, a lot"') for row in rows)
    )
    data = ["facts.csv", "--src", "who", "--dst", "whom", "--time", "when", "--features", "how", "--relation", "how"]
    code, _, err = ask("train", *data, *QUICK, "-o", "a run")
    assert code == 0, err
    lines = [line.strip() for line in err.partition("Next:")[2].splitlines() if line.strip()]
    assert [re.search(r"pintgn (\w+)", line)[1] for line in lines] == ["evaluate", "recommend", "explain", "serve"]
    for line in lines[:-1]:
        done = paste(line, tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout


@pytest.mark.learning
@pytest.mark.slow
def test_next_lines_of_the_demo_work_when_pasted(ask, tmp_path):
    code, _, err = ask("demo", "--events", "600", "--epochs", "1", "-o", "my demo")
    assert code == 0, err
    lines = [line.strip() for line in err.partition("Next:")[2].splitlines() if line.strip()]
    assert len(lines) == 2
    for line in lines:
        done = paste(line.removesuffix(" --open"), tmp_path)
        assert done.returncode == 0, (line, done.stderr)


def test_what_lists_suggest_works_when_pasted(ask, tmp_path):
    _, _, err = ask("theory", "gallery")
    done = paste(err.partition(": ")[2].strip(), tmp_path)
    assert done.returncode == 0, done.stderr
    _, _, err = ask("data", "list")
    name = re.search(r"pintgn data fetch (\S+)", err)[1]
    from pintgn.datasets.public import DATASETS

    assert name in DATASETS


def test_reading_options_are_written_as_they_were_given():
    given = {"src": "a b", "dst": "dst", "t": "when", "sort": False, "bipartite": None, "strict": True, "fill": 0.0}
    given |= {"max_bad": 0.1, "skip_lines": 2, "features": None, "skip_bad": False, "no_header": True}
    assert flags(given) == "--src 'a b' --time when --no-sort --strict --fill 0.0 --skip-lines 2 --no-header"
    assert flags({"sort": True, "bipartite": False, "charset": "utf-8"}) == "--sort --no-bipartite"


# --- what cannot be read -----------------------------------------------------------------------------------------


def test_a_database_says_what_it_holds(ask, tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        for table in ("orders", "items"):
            database.execute(f"create table {table} (src, dst, t)")
            database.execute(f"insert into {table} values (1, 2, 3)")
    database.close()
    code, _, err = ask("data", "info", "shop.db")
    assert code == 2
    assert "has 2 tables: 'items', 'orders'" in err
    assert ask("data", "info", "shop.db", "--query", "orders")[0] == 0


def test_an_address_of_another_kind_says_what_can_be_read(ask):
    code, _, err = ask("data", "info", "mysql://me@host/shop")
    assert code == 2
    assert "mysql:// cannot be read. Events come from files, postgresql://, http(s):// and s3://" in err
    assert len(err.strip().splitlines()) == 1


def test_a_file_that_is_not_there_is_found_by_likeness(ask, tmp_path):
    for name in ("orders.csv", "visits.parquet", ".hidden.csv", "notes.md"):
        (tmp_path / name).write_text("src,dst,t\n1,2,3\n")
    assert "there is no file order.csv. Did you mean 'orders.csv'?" in ask("data", "info", "order.csv")[2]
    assert "Did you mean 'visits.parquet'?" in ask("data", "info", "visits.csv")[2]
    assert (
        "there is no file nope.tsv. That folder has orders.csv, visits.parquet." in ask("data", "info", "nope.tsv")[2]
    )
    assert "there is no folder nowhere, so no file nowhere/a.csv." in ask("data", "info", "nowhere/a.csv")[2]
    for k in range(sources.SHOWN):
        (tmp_path / f"zz{k}.csv").write_text("x")
    assert "zz2.csv and 2 more." in ask("data", "info", "nope.tsv")[2]


def test_a_date_where_times_are_numbers_says_what_to_write_and_a_zone_need_not_be_said(ask, tmp_path):
    (tmp_path / "log.csv").write_text("src,dst,t\na,b,1712000000\nb,c,1712100000\n")
    code, _, err = ask("theory", "distinguish", "log.csv", "a", "b", "--at", "2024-04-08")
    assert code == 2
    assert "If they count since 1970, write 1712534400 (seconds) or 1712534400000 (milliseconds)." in err
    assert ask("theory", "distinguish", "log.csv", "a", "b", "--at", "1712534400")[0] == 0
    (tmp_path / "log.csv").write_text("src,dst,t\na,b,2024-04-01T10:00Z\nb,c,2024-04-02T10:00Z\n")
    for at in ("2024-04-08", "2024-04-08T00:00Z"):
        assert ask("theory", "distinguish", "log.csv", "a", "b", "--at", at)[0] == 0


# --- outputs ------------------------------------------------------------------------------------------------------


def test_an_output_is_replaced_only_when_that_is_said(ask, tmp_path):
    assert ask("simulate", "shop", "-o", "log.csv", "--events", "50")[0] == 0
    for command in (("simulate", "shop", "-o", "log.csv"), ("data", "convert", "log.csv", "-o", "log.csv")):
        code, _, err = ask(*command)
        assert code == 2
        assert "log.csv exists already. Choose another name, or pass --overwrite." in err
    before = (tmp_path / "log.csv").read_bytes()
    assert ask("simulate", "shop", "-o", "log.csv", "--events", "60", "--overwrite")[0] == 0
    assert (tmp_path / "log.csv").read_bytes() != before


@pytest.mark.learning
def test_a_run_is_replaced_only_when_that_is_said(ask, tmp_path):
    assert ask("simulate", "shop", "-o", "log.csv", "--events", "300")[0] == 0
    assert ask("train", "log.csv", *QUICK, "-o", "run")[0] == 0
    code, _, err = ask("train", "log.csv", *QUICK, "-o", "run", "--seed", "1")
    assert code == 2
    assert "run holds a run already. Continue it with --resume, replace it with --overwrite, or choose" in err
    code, _, err = ask("train", "log.csv", *QUICK, "-o", "run", "--seed", "1", "--overwrite")
    assert code == 0, err
    (tmp_path / "run" / "live").mkdir()
    (tmp_path / "run" / "live" / "events.db").write_text("x")
    code, _, err = ask("train", "log.csv", *QUICK, "-o", "run", "--overwrite")
    assert (code, "holds the events of a service" in err) == (2, True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    code, _, err = ask("train", "log.csv", *QUICK, "-o", "mine", "--overwrite")
    assert (code, "holds something, but no run" in err) == (2, True)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_events_come_from_standard_input_and_go_to_standard_output(tmp_path):
    rows = "src,dst,t\n1,2,3\n2,1,4\n"
    (tmp_path / "log.csv").write_text(rows)
    done = paste("cat log.csv | pintgn data convert - -o - | pintgn data convert - -o - | cat", tmp_path)
    assert done.stdout == rows
    assert done.stderr == ""
    done = paste("pintgn data convert log.csv -o log.parquet && cat log.parquet | pintgn data info - --json", tmp_path)
    assert '"events": 2' in done.stdout
    done = paste("pintgn simulate repeat -o - --events 30 | pintgn data info -", tmp_path)
    assert re.search(r"^events +30$", done.stdout, re.M), done.stderr
    done = paste("printf 'src,dst,t\\n1,2,3\\n1,,4\\n' | pintgn data info -", tmp_path)
    assert "line 3 has no dst" in done.stderr
    done = paste("pintgn simulate repeat -o - --json", tmp_path)
    assert "Choose one" in done.stderr
    python = f"{shlex.quote(sys.executable)} -c 'import pintgn; print(len(pintgn.read_events(\"-\")))' < log.csv"
    assert paste(python, tmp_path).stdout == "2\n"


def test_standard_input_that_is_a_keyboard_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(pintgn.errors.BadInput, match="nothing is piped into it"):
        pintgn.read_events("-")
