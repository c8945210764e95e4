"""`pintgn theory` prints answers on stdout, JSON on request, and lets errors be one line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from pintgn.cli.theory import app
from pintgn.errors import BadInput, PintgnError, TooLarge, UnknownName
from pintgn.theory.items import item


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*words: str | Path) -> PintgnError:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, PintgnError), result.output
    return result.exception


def write(name: str, folder: Path) -> list[Path]:
    """The events of each graph of a gallery item as a CSV, and its node features as another."""
    paths = []
    for k, graph in enumerate(item(name).graphs):
        paths.append(folder / f"{name}-{k}.csv")
        csv.write_csv(pa.table(dict(zip(("src", "dst", "t"), graph.columns, strict=True))), paths[-1])
        features = graph.log.node_features
        nodes = {"id": list(graph.layout)} | {f"x{i}": column for i, column in enumerate(features.T)}
        csv.write_csv(pa.table(nodes), folder / f"{name}-nodes.csv")
    return paths


@pytest.fixture
def attention(tmp_path) -> Path:
    return write("attention", tmp_path)[0]


def test_the_gallery_is_listed_and_shown():
    listed = run("gallery")
    assert "equal-depth" in listed
    assert "Prop. 4" in listed
    shown = run("gallery", "attention")
    assert "Attention cannot count (Prop. 4)" in shown
    assert "tgat           cannot" in shown
    assert json.loads(run("gallery", "symmetry", "--json"))["symmetry"]["answers"][0]["verdicts"]["any"]["can"] is False
    assert isinstance(fails("gallery", "atention"), UnknownName)


def test_distinguish_reads_any_events(attention):
    nodes = attention.with_name("attention-nodes.csv")
    answer = json.loads(run("distinguish", attention, "u", "v", "--at", "3", "--nodes", nodes, "--json"))
    assert answer["verdicts"]["tgat"]["can"] is False
    assert answer["verdicts"]["mp-tgn"]["can"] is True
    table = run("distinguish", attention, "u", "z", "v", "w", "--at", "3", "--nodes", nodes, "--depth", "1", "-d", "2")
    assert "events {u, z} and {v, w} at t=3 (depth=1, d=2, steps=1)" in table
    assert "cannot" in table
    assert "[0,1]" in run("distinguish", attention, "u", "z", "a", "c", "-d", "2")  # brackets are not markup


def test_distinguish_names_bad_input(attention):
    assert str(fails("distinguish", attention, "u", "v", "w")).startswith("3 ids; pass two to compare nodes, or four")
    assert "Did you mean 'u'" in str(fails("distinguish", attention, "uu", "v"))
    assert "first event is at t=1" in str(fails("distinguish", attention, "u", "v", "--at", "1"))
    assert "times here are numbers, given 'soon'" in str(fails("distinguish", attention, "u", "v", "--at", "soon"))


def test_wl_colors_a_log_or_compares_two(tmp_path):
    first, second = write("girth-messages", tmp_path)
    text = run("wl", first)
    assert text.splitlines()[-2].split() == ["round", "1", "3", "0", "2"]  # colours, nodes alone, largest class
    assert "stable after round 1" in text
    assert json.loads(run("wl", first, "--rounds", "2", "--json")) == {
        "colors": [1, 3, 3],
        "stable": 1,
        "largest_classes": [[6], [2, 2, 2], [2, 2, 2]],
    }
    assert run("wl", first, "--against", second).startswith("inconclusive")
    assert json.loads(run("wl", first, "--against", second, "--json"))["verdict"] == "inconclusive"


def test_wl_reads_the_second_log_with_the_same_options(tmp_path):
    for name, rows in {"a": "5;ann;bob\n2;bob;cay\n", "b": "2;x;y\n5;y;z\n"}.items():
        (tmp_path / f"{name}.csv").write_text("when;who;whom\n" + rows)
    options = ("--src", "who", "--dst", "whom", "--time", "when", "--sort")
    assert run("wl", tmp_path / "a.csv", "--against", tmp_path / "b.csv", *options).startswith("inconclusive")


def test_trees_are_printed_and_drawn(attention, tmp_path):
    assert run("tree", attention, "c", "--monotone").splitlines()[:2] == ["c", "└─ t=2 ─ w"]
    run("tree", attention, "u", "--svg", tmp_path / "u.svg")
    assert (tmp_path / "u.svg").read_text().startswith("<svg")
    assert json.loads(run("tree", attention, "u", "--json"))["levels"] == [1, 2, 6]
    error = fails("tree", attention, "u", "--depth", "40")
    assert isinstance(error, TooLarge)
    assert "Depth 16 fits" in str(error)


def test_ids_and_dates_are_read_as_the_log_has_them(tmp_path):
    path = tmp_path / "dated.csv"
    path.write_text("src,dst,t\n1,2,2024-01-01T00:00\n3,4,2024-01-01T00:00\n1,3,2024-01-02T00:00\n")
    assert "cannot" in run("distinguish", path, "1", "3", "--at", "2024-01-02")
    assert "2024-01-02" in run("tree", path, "1", "--at", "2024-01-03 12:00", "--depth", "1")
    assert isinstance(fails("tree", path, "one"), BadInput)
    assert "neither a number nor a date" in str(fails("tree", path, "1", "--at", "soon"))


def test_a_report_is_printed_and_json(tmp_path):
    from pintgn.datasets.simulate import simulate
    from pintgn.ingest.read import write_events

    path = tmp_path / "world.parquet"
    write_events(simulate("repeat", events=600, seed=0, nodes=40), path)
    text = run("report", path, "--pairs", "20")
    assert "Positions are" in text
    assert json.loads(run("report", path, "--pairs", "20", "--json"))["pairs"] == 20
