"""Labels from frozen embeddings: of each source strictly before its event, by the model as link prediction left it."""

from __future__ import annotations

import numpy as np
import pytest

from paper.classify import classify, source_embeddings
from pintgn import PINT, EventLog, fit, read_events
from pintgn.errors import BadInput
from pintgn.models.pair_features import COLUMNS
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning
SMALL = {"dim": 8, "neighbors": 4, "positions": 2, "memory": 4}


def labeled(label, events=500):
    log = random_log(events, 20)
    return EventLog(log.src, log.dst, log.t, label=label)


@pytest.fixture(scope="module")
def run():
    log = random_log(900, 20)
    busy = np.array([((log.src[:k] == s) | (log.dst[:k] == s)).sum() for k, s in enumerate(log.src)])
    return fit(PINT(**SMALL), EventLog(log.src, log.dst, log.t, label=(busy > 40).astype(np.int8)), **QUICK)


def test_labels_that_follow_from_the_past_are_found(run):
    weights = {name: value.clone() for name, value in run.model.state_dict().items()}
    found = classify(run, epochs=20, learning_rate=3e-3)
    assert found.test_auc > 0.65  # 0.82 to 1.0 over four seeds; 0.5 is chance
    assert all((weights[name] == value).all() for name, value in run.model.state_dict().items()), "frozen"
    assert "AUC" in str(found)
    assert found.events["test"] == len(run.parts.test)
    assert classify(run, epochs=2).to_dict() == classify(run, epochs=2).to_dict()


def test_embeddings_are_those_of_each_events_own_time(run):
    found = source_embeddings(run, run.parts.log)
    stream, log = run.new_stream(), run.parts.log
    run.model.eval()
    for batch in log[:60].batches(60):
        for start in batch.group_starts:
            group = batch.where(batch.t == batch.t[start])
            expected = stream.embed(group.src, group.t).detach().numpy()
            assert found[start : start + len(group)] == pytest.approx(expected, abs=1e-4)
            stream.observe(group)


def test_with_pair_history_the_decoder_knows_how_active_a_node_has_been(run):
    """Activity decides the label, and an embedding that was learned for links need not tell it."""
    knows = fit(PINT(**SMALL, pair_history=True), run.log, **QUICK)
    columns = source_embeddings(knows, knows.parts.log)
    assert columns.shape[1] == SMALL["dim"] + len(COLUMNS)
    log = knows.parts.log
    count = np.array(
        [((log.src[:k] == s) | (log.dst[:k] == s))[log.t[:k] < log.t[k]].sum() for k, s in enumerate(log.src)]
    )
    own = columns[:, SMALL["dim"] :]
    assert max(abs(np.corrcoef(column, np.log1p(count))[0, 1]) for column in own.T if column.std() > 0) > 0.9
    assert classify(knows, epochs=20, learning_rate=3e-3).test_auc > 0.8


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (None, "no labels"),
        (np.zeros(500), "is 0 in every event"),
        (np.full(500, np.nan), "missing in every event"),
        (np.arange(500) % 3, "has 3 values"),
        (np.arange(500) >= 450, "negative in all"),
    ],
)
def test_labels_that_cannot_be_learned_are_one_line(label, message):
    run = fit(PINT(**SMALL), labeled(label), **QUICK | {"epochs": 1})
    with pytest.raises(BadInput, match=message):
        classify(run)


def test_a_part_with_one_value_has_no_auc():
    label = np.zeros(500)
    label[:100:3] = 1  # positives in the training part only
    run = fit(PINT(**SMALL), labeled(label), **QUICK | {"epochs": 1})
    found = classify(run, epochs=2)
    assert found.test_auc is None
    assert found.val_auc is None


def test_wikipedias_labels_run(shared_data, tmp_path):
    log = read_events(shared_data("wikipedia"), label="label")
    run = fit(PINT(dim=8, neighbors=3, positions=0), log[:12_000], epochs=1)
    found = classify(run, epochs=1)
    assert found.label == "label"
    assert sum(found.positives.values()) == log.label[:12_000].sum()


def test_a_log_that_was_cut_from_a_longer_one_is_measured_like_any_other():
    whole = labeled(np.arange(500) % 2)
    part = whole[100:]
    alone = EventLog(part.src, part.dst, part.t, label=part.label)
    cut, same = (classify(fit(PINT(**SMALL), log, **QUICK), epochs=2) for log in (part, alone))
    assert part.first == 100
    assert cut.events == same.events
    assert sum(cut.events.values()) == 400
    assert cut.positives == same.positives
