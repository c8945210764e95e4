"""PyG's TemporalData in and out, against the real package."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import numpy as np
import pytest

import pintgn
from pintgn.errors import BadInput, EventOrderError, PintgnWarning
from pintgn.interop import from_pyg, to_pyg
from tests.conftest import ROOT
from tests.learn.helpers import random_log

torch = pytest.importorskip("torch")
data_module = pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed")
TemporalData = data_module.TemporalData


def full_log():
    """Ties, deletions, node events, features, labels."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 9, 60), rng.integers(0, 9, 60)
    op = rng.choice([1, 1, -1, 0], 60).astype(np.int8)
    dst[op == 0] = src[op == 0]
    return pintgn.EventLog(
        src, dst, np.sort(rng.integers(0, 30, 60)), op=op,
        features=rng.normal(size=(60, 3)), label=rng.normal(size=60),
        node_updates=rng.normal(size=(int((op == 0).sum()), 2)),
    )  # fmt: skip


@pytest.mark.parametrize("log", [full_log(), random_log(), random_log(features=2)], ids=["full", "bare", "features"])
def test_a_log_comes_back_from_temporal_data_as_it_went(log):
    data = to_pyg(log)
    assert isinstance(data, TemporalData)
    assert data.num_events == len(log)
    assert data.t.dtype == torch.int64
    assert from_pyg(data) == log


def test_float_times_stay_float64():
    log = pintgn.EventLog([0, 1], [1, 0], [0.1, 0.30000000000000004])
    assert to_pyg(log).t.dtype == torch.float64
    assert from_pyg(to_pyg(log)).t.tolist() == [0.1, 0.30000000000000004]


def test_pygs_own_split_is_ours():
    log = random_log(events=1_000)
    theirs, ours = to_pyg(log).train_val_test_split(0.15, 0.15), log.split()
    assert [part.num_events for part in theirs] == [len(part) for part in ours]


def test_temporal_data_cannot_change_the_log():
    log = random_log()
    before = log.src.copy()
    to_pyg(log).src.fill_(0)
    assert (log.src == before).all()


def test_what_pygs_documentation_shows_can_be_read():
    """Float tensors everywhere, a message with one axis."""
    data = TemporalData(
        src=torch.Tensor([1, 2, 3, 4]), dst=torch.Tensor([2, 3, 4, 5]), t=torch.Tensor([1000, 1010, 1100, 2000]),
        msg=torch.Tensor([1, 1, 0, 0]), y=torch.Tensor([1, 1, 0, 0]),
    )  # fmt: skip
    log = from_pyg(data)
    assert (log.src.tolist(), log.t.tolist()) == ([1, 2, 3, 4], [1000, 1010, 1100, 2000])
    assert log.features.shape == (4, 1)
    assert log.label.tolist() == [1, 1, 0, 0]
    assert log.nodes == 6
    assert from_pyg(data, nodes=10, label=None).nodes == 10


def test_rounded_times_are_told():
    data = TemporalData(src=torch.tensor([0]), dst=torch.tensor([1]), t=torch.Tensor([1_082_040_961]))
    with pytest.warns(PintgnWarning, match="float32"):
        from_pyg(data)


def test_bad_data_is_refused_in_one_line():
    ok = {"src": torch.tensor([0, 1]), "dst": torch.tensor([1, 0]), "t": torch.tensor([5, 3])}
    with pytest.raises(EventOrderError):
        from_pyg(TemporalData(**ok))
    assert from_pyg(TemporalData(**ok), sort=True).src.tolist() == [1, 0]
    with pytest.raises(BadInput, match="'t'"):
        from_pyg(TemporalData(src=ok["src"], dst=ok["dst"]))
    with pytest.raises(BadInput, match="whole"):
        from_pyg(TemporalData(**ok | {"src": torch.tensor([0.5, 1])}))
    with pytest.raises(BadInput, match="nodes=1"):
        from_pyg(TemporalData(**ok), sort=True, nodes=1)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("pyg_tgn", ROOT / "examples" / "pyg_tgn.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_example_is_what_the_documentation_shows():
    text = (ROOT / "examples" / "pyg_tgn.py").read_text()
    shown = re.search(r"# \[positions\]\n(.*?)# \[/positions\]", text, re.S).group(1).strip()
    assert shown in (ROOT / "docs" / "interop.md").read_text(), "docs/interop.md shows another example"
    assert len(shown.splitlines()) <= 22


@pytest.mark.learning
def test_the_example_runs(example, tmp_path, monkeypatch, capsys):
    pintgn.simulate("repeat", events=400, seed=0).save(tmp_path / "events.parquet")
    words = ["pyg_tgn.py", "events.parquet", "--seeds", "1", "--epochs", "1", "--json", "rows.json"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.chdir(tmp_path)
    example.main()
    assert len(re.findall(r"test AP \d", capsys.readouterr().out)) == 3
    assert len(json.loads((tmp_path / "rows.json").read_text())) == 3


@pytest.mark.parametrize("fresh", [True, False])
def test_positions_of_the_example_ignore_a_scrambled_future(example, fresh):
    data = to_pyg(random_log(events=400, nodes=12, ties=1))
    other = torch.randint(12, (200,), generator=torch.Generator().manual_seed(0))

    def features(dst):
        positions = example.Positions(fresh)
        positions(data.src[:200], data.dst[:200], data.t[:200], other)
        return positions(data.src[200:], dst, data.t[200:], other)

    dst = data.dst[200:].clone()
    later = data.t[200:] >= data.t[300]
    rows = torch.cat([~later, ~later])
    before = features(dst)[rows]
    dst[later] = dst[later].flip(0)
    assert (features(dst)[rows] == before).all()
