"""Prequential evaluation: scored before it happens, by the log alone; drift is reported when there is some."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.events.columns import scrambled
from pintgn.learn.metrics import area_under_curve, average_precision
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.prequential import ENOUGH, Prequential
from tests.serve.helpers import TRAINED, as_batch, trained


@pytest.fixture
def run(run_folder):
    return Run.open(run_folder)


def add(quality, yes, no, t, numbers) -> None:
    """Logits of events and their negatives, one by one."""
    for number, pair, when in zip(numbers.tolist(), np.stack([yes, no], 1).tolist(), t.tolist(), strict=True):
        quality.take(number, pair, when)


def live_after(run_folder, columns, stop, batch, every=3):
    live = Live(Run.open(run_folder), evaluate_every=every)
    for begin in range(TRAINED, stop, batch):
        live.observe_batch(as_batch(live, columns, begin, min(begin + batch, stop)))
    return live


def test_neither_batches_nor_blocks_change_what_is_scored(run_folder, columns):
    one, other = (live_after(run_folder, columns, 700, batch) for batch in (23, 460))
    assert one.prequential.scored == other.prequential.scored > 100
    assert np.allclose(one.prequential.held(), other.prequential.held(), atol=1e-4)


def test_each_judged_event_was_scored_before_it_happened_beside_a_destination_known_by_then(run_folder, columns):
    """Everything by hand: the event's number decides; its own group is not seen; the pool is what was met before."""
    found = live_after(run_folder, columns, 420, 180).prequential
    known = list(dict.fromkeys(columns["dst"][:TRAINED]))
    positive, negative = [], []
    waiting = []
    clean = Live(Run.open(run_folder), evaluate_every=0)
    for row in range(TRAINED, 420):
        if waiting and columns["t"][row] != columns["t"][waiting[0]]:
            clean.observe_batch(as_batch(clean, columns, waiting[0], row))
            waiting = []
        waiting.append(row)
        number = row - TRAINED + 1
        key = scrambled(np.array([number]))
        if key[0] % 3 == 0:
            place = int(scrambled(key)[0] % len(known))
            other = known[place] if known[place] != columns["dst"][row] else known[(place + 1) % len(known)]
            ends = [columns["src"][row]] * 2, [columns["dst"][row], other]
            with torch.no_grad():
                yes, no = clean.reader().score_pairs(*ends, columns["t"][row]).logits
            positive.append(yes)
            negative.append(no)
        if columns["dst"][row] not in known:
            known.append(columns["dst"][row])
    assert np.allclose(found.held(), np.stack([positive, negative], 1), atol=1e-4)


def test_figures_are_ap_and_auc_of_the_window(run):
    quality = Prequential(run, window=100)
    rng = np.random.default_rng(0)
    yes, no = rng.normal(1, 1, 250), rng.normal(0, 1, 250)
    add(quality, yes, no, np.arange(250), np.arange(250))
    truth, pooled = np.repeat([True, False], 100), np.concatenate([yes[-100:], no[-100:]])
    assert quality.figures()["ap"] == pytest.approx(average_precision(truth, pooled))
    assert quality.figures()["auc"] == pytest.approx(area_under_curve(truth, pooled))
    assert [t for t, _ in quality.history] == [49, 99, 149, 199, 249]


@pytest.mark.parametrize(("shift", "drift"), [(2.0, False), (0.3, True)])
def test_drift_is_said_when_there_is_some_and_only_then(run, shift, drift):
    run.test = {"all": {"ap": 0.92, "auc": 0.92}}  # of N(2, 1) against N(0, 1)
    for seed in range(20):
        quality = Prequential(run)
        rng = np.random.default_rng(seed)
        add(quality, rng.normal(shift, 1, 600), rng.normal(0, 1, 600), np.arange(600), np.arange(600))
        assert quality.drift is drift


def test_little_is_no_reason_to_cry_drift(run):
    run.test = {"all": {"ap": 0.99, "auc": 0.99}}
    quality = Prequential(run)
    add(quality, np.zeros(ENOUGH - 1), np.ones(ENOUGH - 1), np.arange(ENOUGH - 1), np.arange(ENOUGH - 1))
    assert not quality.drift
    assert Prequential(run).status()["ap_rolling"] is None


def test_a_score_that_is_not_finite_counts_as_wrong(run):
    quality = Prequential(run)
    add(quality, np.array([np.nan, 1.0]), np.array([0.0, 0.0]), np.arange(2), np.arange(2))
    assert quality.figures()["auc"] < 1


def test_a_stream_that_changes_its_ways_is_noticed(columns, tmp_path):
    """Whom people meet no longer depends on whom they met: figures that rest on recency fall."""
    folder = trained(tmp_path / "run", columns, "heuristic")
    rng = np.random.default_rng(0)
    changed = {name: list(column) for name, column in columns.items()}
    for name in ("src", "dst"):
        changed[name] = changed[name][:TRAINED] + rng.permutation(changed[name][TRAINED:]).tolist()
    usual, odd = (live_after(folder, data, 900, 330, every=1).prequential for data in (columns, changed))
    assert odd.figures()["auc"] < usual.figures()["auc"] - 0.1
    assert odd.drift


def test_nothing_is_scored_when_told_so(run_folder, columns):
    assert live_after(run_folder, columns, 400, 100, every=0).prequential.scored == 0
