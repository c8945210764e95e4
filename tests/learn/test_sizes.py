"""Sizes in learning and asking: no figure and no answer depends on the pieces in which it is computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

import pintgn
from pintgn import PINT, EventLog, fit
from pintgn.errors import BadInput
from pintgn.explain import counterfactuals
from pintgn.learn import metrics
from pintgn.learn.defaults import BUSY, MANY, MOST_STEPS, PASSES, STEPS, from_training
from pintgn.learn.negatives import BLOCK, Candidates
from pintgn.learn.settings import Settings
from pintgn.live import answerer, recommend
from pintgn.models import layers
from pintgn.stream import Stream
from tests.conftest import around
from tests.learn.helpers import QUICK, random_log

NODES = 19


@pytest.fixture(scope="module")
def run():
    return fit(PINT(dim=8, neighbors=4, positions=3), random_log(400, NODES + 1), **QUICK | {"epochs": 1})


def test_answers_are_the_same_in_pieces_of_any_size(run, monkeypatch):
    def answers():
        asked = pintgn.open(run)
        pairs = asked.score(3, list(range(NODES)))
        ranked = {one.dst: one.logit for one in asked.recommend(3, k=NODES)}
        return pairs, ranked, asked.embed()[1]

    pairs, ranked, vectors = answers()
    assert len(pairs) == len(vectors) == NODES
    for size in (1, 7, *around(NODES // 2), *around(len(ranked)), *around(NODES)):
        for module, name in ((answerer, "SCORED"), (answerer, "NODES"), (answerer, "PAIRS"), (recommend, "PAIRS")):
            monkeypatch.setattr(module, name, size)
        again = answers()
        assert again[0] == pytest.approx(pairs, abs=1e-5)
        assert again[1] == pytest.approx(ranked, abs=1e-5)
        assert again[2] == pytest.approx(vectors, abs=1e-5)


def test_an_explanation_is_the_same_in_pieces_of_any_size(run, monkeypatch):
    """MEMORY is the bytes of all worlds at once; one world of this log needs fewer than 8 * 4 * 20."""
    expected = pintgn.open(run).explain(3, 4).as_dict()
    for size in (1, 8 * 4, *around(8 * 4 * NODES), *around(2 * 8 * 4 * NODES), 10 * 8 * 4 * NODES):
        monkeypatch.setattr(counterfactuals, "MEMORY", size)
        assert pintgn.open(run).explain(3, 4).as_dict() == expected


@pytest.mark.parametrize("rows", [1, *around(metrics.CHUNK), *around(2 * metrics.CHUNK)])
def test_chunked_ap_is_the_mean_over_chunks(rows):
    rng = np.random.default_rng(rows)
    positive, negative = rng.normal(0.5, 1, rows), rng.normal(size=rows)
    chunks = [slice(k, k + 200) for k in range(0, rows, 200)]
    expected = [
        average_precision_score(np.repeat([1, 0], len(positive[c])), np.concatenate([positive[c], negative[c]]))
        for c in chunks
    ]
    found = metrics.Scores(positive, negative).metrics()
    assert found["chunked_ap"] == pytest.approx(np.mean(expected), abs=1e-12)
    assert found["events"] == rows


@pytest.mark.parametrize("rows", [1, *around(BLOCK), *around(2 * BLOCK)])
def test_candidates_are_the_same_however_a_part_is_cut(rows):
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 9, 1_000), 9 + rng.integers(0, 90, 1_000), np.arange(1_000))
    part = log[1_000 - rows :]
    whole, valid = Candidates(log, part, 5)(0, rows)
    assert whole.shape == (rows, 5)
    assert valid.all()
    assert all(len(set(row)) == 5 for row in whole.tolist())
    assert not (whole == part.dst[:, None]).any()
    for size in (1, *around(BLOCK), rows):
        cuts = [(begin, min(begin + size, rows)) for begin in range(0, rows, size)]
        assert (np.concatenate([Candidates(log, part, 5)(*cut)[0] for cut in cuts]) == whole).all()


def test_threads_change_no_score(run, monkeypatch):
    """A model that learns and scores with one thread for each share of the work, however the shares are cut."""
    log, threads = random_log(300, 15), torch.get_num_threads()

    def outcome():
        made = fit(PINT(dim=8, neighbors=4, layers=2, positions=2), log, threads=3, **QUICK | {"epochs": 1})
        return [
            made.history[0]["loss"],
            made.history[0]["val"]["all"]["ap"],
            *pintgn.open(made).score(3, [4, 5]).values(),
        ]

    slots = []
    in_chunks = layers.in_chunks

    def note(run, parents, k, like=()):
        slots.append(parents * k)
        return in_chunks(run, parents, k, like)

    monkeypatch.setattr(layers, "in_chunks", note)
    expected = outcome()
    largest = max(slots)
    assert largest > 100, "else nothing is shared"
    for worth in (1, *around(largest // 2), *around(largest)):
        monkeypatch.setattr(layers, "WORTH_A_THREAD", worth)
        assert outcome() == pytest.approx(expected, abs=1e-5)
    assert torch.get_num_threads() == threads


def test_rules_for_settings_turn_where_they_say():
    def chosen(events, nodes):
        ends = np.arange(events) % nodes
        return from_training(Settings.of({"train": {"batch": 1}}), EventLog(ends, np.roll(ends, 1), np.arange(events)))

    for events in around(10 * BUSY // 2):
        assert chosen(events, 10).model["neighbors"] == (20 if 2 * events >= 10 * BUSY else 10)
    assert [chosen(events, 10).train.epochs for events in around(STEPS // PASSES)] == [9, 8, 8]
    assert [chosen(events, 10).train.epochs for events in around(MOST_STEPS // PASSES)] == [8, 8, 7]
    assert chosen(MOST_STEPS, 10).train.epochs == 3
    assert [chosen(events, 10).train.patience for events in (40, 220, 290, 800)] == [10, 9, 7, 5]
    given = from_training(Settings.of({"train": {"epochs": 30}}), EventLog(np.arange(9), np.arange(9), np.arange(9)))
    assert given.train.patience is None, "who asks for thirty gets thirty"
    assert [chosen(events, 10).train.learning_rate for events in around(1_000)] == [3e-3, 1e-3, 1e-3]
    assert [chosen(MANY + 1, nodes).stream.positions_width for nodes in around(MANY)] == [128, 64, 64]
    with pytest.raises(BadInput, match="positions_width=0; it is at least 1"):
        Settings.of({"stream": {"positions_width": 0}})
    wide = Settings.of({"stream": {"positions_width": 96}})
    assert from_training(wide, EventLog(np.arange(9), np.arange(9), np.arange(9))).stream.positions_width == 96


def test_no_figure_depends_on_whether_a_stream_is_kept_between_epochs(monkeypatch):
    """The stream after the training part is kept and copied for validation, or built anew: the same figures."""
    log, built = random_log(400, 20), []
    held = Stream.nbytes.fget
    monkeypatch.setattr(Stream, "nbytes", property(lambda self: built.append(held(self)) or built[-1]))

    def figures():
        made = fit(PINT(dim=8, neighbors=4, positions=3), log, **QUICK | {"epochs": 2})
        return [one["val"] for one in made.history], made.test, made.heuristics, made.calibration

    expected, size = figures(), built[0]
    assert len(built) == 1, "small enough to be kept"
    for kept, times in zip(around(size), (2, 1, 1), strict=True):
        monkeypatch.setattr("pintgn.learn.train.KEPT", kept)
        built.clear()
        assert figures() == expected
        assert len(built) == times


def test_two_threads_give_what_one_gives_bit_for_bit():
    """The second thread only looks up ahead of the first."""
    log = random_log(300, 15)

    def outcome(threads, model):
        made = fit(model, log, threads=threads, **QUICK | {"epochs": 1})
        weights = [w.numpy().tobytes() for w in made.model.state_dict().values()]
        return made.history[0]["loss"], made.history[0]["val"], made.test, weights

    for settings in ({"positions": 3}, {"memory": 4}):
        one, two = (outcome(n, PINT(dim=8, neighbors=4, **settings)) for n in (1, 2))
        assert one == two
