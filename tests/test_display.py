"""Bars and tables in terminals and notebooks."""

from __future__ import annotations

import importlib
import re
import sys
import types
from html import escape

import pytest

import pintgn
from pintgn.display import bars
from pintgn.display.bars import Bar, NotebookBar, open_bar
from pintgn.display.html import folded
from pintgn.errors import BadInput
from tests.learn.helpers import random_log


class Outputs(list):
    """What a notebook's output shows, one after the other."""

    def display(self, html, display_id):
        assert display_id
        self.append(html)
        return types.SimpleNamespace(update=self.append)


@pytest.fixture
def notebook(monkeypatch):
    """A place that looks like a notebook to rich and has IPython's display."""
    shown = Outputs()
    fake = types.ModuleType("IPython")
    fake.display = types.ModuleType("IPython.display")
    fake.display.HTML, fake.display.display = str, shown.display
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    console = bars.console
    monkeypatch.setattr(bars, "console", lambda stderr=False: jupyter(console(stderr)))
    monkeypatch.setattr(bars, "REFRESH", 0)
    return shown


def jupyter(console):
    console.is_jupyter = True
    return console


def test_a_notebook_gets_one_output_that_is_drawn_anew(notebook):
    with open_bar("reading <x>", "events") as bar:
        assert isinstance(bar, NotebookBar)
        bar(10, 100)
        bar(30, 100)
        assert '<progress max="100" value="30"' in notebook[-1]
        assert re.search(r"reading &lt;x&gt; · [1-9][\d,]* events/s", notebook[-1])
        bar.doing("saving")
    assert "<progress" not in notebook[-1]
    assert "saving" in notebook[-1]


def test_many_steps_are_few_pictures_in_a_notebook(notebook, monkeypatch):
    monkeypatch.setattr(bars, "REFRESH", 3600)
    with open_bar("reading") as bar:
        bar.doing("more")
        for k in range(1000):
            bar(k, 1000)
    assert len(notebook) == 3


def test_elsewhere_a_bar_is_silent(capsys):
    with open_bar("reading") as bar:
        assert isinstance(bar, Bar)
        bar(1, 2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.learning
def test_fit_shows_a_bar_in_a_notebook_that_ends_as_its_result(notebook):
    log = random_log()
    pintgn.fit(pintgn.PINT(dim=4), log, epochs=2)
    assert any("<progress" in html and "epoch 1/2  loss" in html for html in notebook)
    assert "2 epochs  val AP" in notebook[-1]
    before = len(notebook)
    pintgn.fit(pintgn.PINT(dim=4), log, epochs=1, progress=False)
    assert len(notebook) == before


def test_a_log_shows_both_its_ends_in_a_notebook():
    html = pintgn.simulate("shop", events=300, seed=0)._repr_html_()
    assert "EventLog: 300 events" in html
    assert ">0</td>" in html
    assert ">299</td>" in html
    assert html.count("<tr>") == 1 + 5 + 1 + 5
    assert "<script>" not in pintgn.read_events({"a": ["<script>"], "b": ["x"], "t": [1]}, "a", "b", "t")._repr_html_()
    assert pintgn.EventLog([], [], [])._repr_html_()


@pytest.mark.parametrize("evil", ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"])
def test_text_of_a_log_is_no_markup_in_a_notebook(evil):
    """Ids, names of columns, categories, and classes of a target; of logs, runs and evaluations."""
    columns = {"src": [f"{evil}{k % 7}" for k in range(120)], "dst": [f"{evil}{k % 5}" for k in range(120)]}
    columns |= {"t": list(range(120)), evil: [f"{evil}{k * k % 3}" for k in range(120)]}
    log = pintgn.read_events(columns, "src", "dst", "t", features=[evil])
    run = pintgn.fit(pintgn.PINT(dim=4), log, epochs=1, progress=False, predict=evil)
    shown = [log._repr_html_(), run._repr_html_(), pintgn.evaluate(run, progress=False)._repr_html_()]
    assert [name for name in ("<img", "<script", "</script") for html in shown if name in html] == []
    assert any(escape(evil) in html for html in shown)


def test_a_log_becomes_a_frame_in_its_own_columns():
    table = {"buyer": ["a", "b"], "seller": ["x", "y"], "when": [1, 2], "amount": [1.5, 2.5]}
    frame = pintgn.read_events(table, "buyer", "seller", "when", features=["amount"]).to_pandas()
    assert frame.to_dict("list") == table


def test_without_pandas_one_line_says_what_to_install(monkeypatch):
    def missing(name, package=None):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(BadInput, match="needs pandas.*pip install pandas"):
        random_log().to_pandas()


def test_nothing_is_folded_where_there_is_nothing():
    assert folded("Epochs", "") == ""
    assert folded("a<b", "x") == "<details><summary>a&lt;b</summary>x</details>"
