"""Classes of users' own by name: from the command line, by entry point, and never because a file says so."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint

import pytest

import pintgn
from pintgn.errors import BadInput, UnknownName
from pintgn.models import registry
from pintgn.models.registry import model_class
from tests.cli.test_learning import run as command
from tests.learn.helpers import random_log

HABITS = '''
import numpy as np, torch
import pintgn
print("imported")

class Habits(pintgn.Model):
    """How often two have met."""

    def __init__(self, dim: int = 3):
        super().__init__()
        self.dim = dim

    def make(self, schema):
        self.weight = torch.nn.Linear(1, 1)

    def gather(self, query, history):
        return np.log1p(history.count_pair(query.src, query.dst).astype(np.float32))[:, None]

    def forward(self, inputs, state):
        return self.weight(torch.from_numpy(inputs)).squeeze(1)

NO_MODEL = 3
'''


@pytest.fixture
def habits(tmp_path, monkeypatch):
    (tmp_path / "habits.py").write_text(HABITS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv(registry.OWN, raising=False)
    yield "habits:Habits"
    sys.modules.pop("habits", None)


@pytest.mark.learning
def test_the_command_line_trains_and_uses_a_class_of_ones_own(habits, monkeypatch, capsys):
    monkeypatch.setenv(registry.OWN, "")  # what --model adds is taken back after the test
    pintgn.write_events(random_log(), "events.csv")
    given = ("train", "events.csv", "--model", habits, "--set", "dim=5", "--epochs", "1", "--no-report", "-o", "run")
    code, out, err = command(*given, monkeypatch=monkeypatch, capsys=capsys)
    assert code == 0, err
    assert "habits.Habits" in out
    monkeypatch.setenv(registry.OWN, "")
    code, _, err = command("evaluate", "run", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 2
    assert "PINTGN_MODELS=habits:Habits" in err
    monkeypatch.setenv(registry.OWN, habits)
    code, out, err = command("evaluate", "run", "--json", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 0, err
    assert "habits.Habits" in json.loads(out.removeprefix("imported\n"))["negatives"]["random"]
    assert pintgn.Run.open("run").model.dim == 5


def test_what_a_file_names_is_not_imported(habits, capsys):
    with pytest.raises(BadInput, match="not imported unasked.*PINTGN_MODELS=habits:Habits"):
        model_class("habits.Habits")
    with pytest.raises(BadInput, match="not imported unasked"):
        model_class(habits)
    assert "habits" not in sys.modules
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:Habits", "cannot be imported from .*No module named 'nowhere'"),
        ("habits:Habit", "cannot be imported.*Habit"),
        ("habits:NO_MODEL", "is 3, not a class derived from pintgn.Model"),
        ("json:JSONDecoder", "not a class derived from pintgn.Model"),
        ("habits:", "cannot be imported"),
    ],
)
def test_a_name_that_leads_nowhere_gets_one_line(habits, monkeypatch, name, said):
    monkeypatch.setenv(registry.OWN, f"other:Thing, {name}")
    with pytest.raises(BadInput, match=said) as error:
        model_class(name)
    assert "\n" not in str(error.value)


def test_an_installed_package_can_name_its_models(monkeypatch):
    points = [
        EntryPoint("twin", "pintgn.models.pint:PINT", registry.GROUP),
        EntryPoint("odd", "json:loads", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    assert model_class("twin") is pintgn.PINT
    with pytest.raises(BadInput, match="entry point 'odd'.*not a class derived"):
        model_class("odd")
    with pytest.raises(UnknownName, match="Did you mean 'twin'.*module:Class"):
        model_class("twim")
