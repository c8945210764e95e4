"""A run in use: users' own ids, times and features; wrong ones end in one clear line; answers are the stream's."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pyarrow as pa
import pytest

import pintgn
from pintgn import PINT, Columns, EventLog, Query, fit, read_events
from pintgn.errors import BadFile, BadInput, EventOrderError, PintgnWarning, StaleQuery, UnknownName
from pintgn.learn.calibration import Calibration, expected_error
from pintgn.learn.metrics import Scores
from pintgn.live.predict import predict
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning

SMALL = {"dim": 8, "neighbors": 4, "positions": 2}
NAMES = ["ann", "bob", "cay", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "lou"]


def table(events=400, seed=0):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 12, events), rng.integers(0, 12, events)
    return {
        "who": [NAMES[k] for k in src],
        "whom": [NAMES[k] for k in dst],
        "when": 1_700_000_000 + np.sort(rng.integers(0, 5_000, events)),
        "amount": rng.normal(50, 20, events),
        "kind": [("card", "cash")[k] for k in rng.integers(0, 2, events)],
    }


@pytest.fixture(scope="module")
def log():
    return read_events(table(), src="who", dst="whom", t="when", features=["amount", "kind"])


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    fit(PINT(**SMALL, memory=4), log, folder=path, **QUICK)
    return path


@pytest.fixture
def live(folder):
    return pintgn.open(folder)


LATER = 1_700_010_000


def card(amount):
    return {"amount": amount, "kind": "card"}


# -- answers -------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_a_stream_that_has_observed_everything(folder, log, live):
    run = pintgn.Run.open(folder)
    stream = run.new_stream()
    stream.observe(run.parts.log)
    run.model.eval()
    found = live.score("ann", ["bob", "cay"], at=LATER)
    nodes = [log.node(name) for name in ("ann", "bob", "cay")]
    expected = stream.score(Query(np.array([nodes[0]] * 2), np.array(nodes[1:]), np.array([LATER] * 2)))
    assert list(found) == ["bob", "cay"]
    assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-4)
    alone = live.score("ann", "bob", at=LATER)
    assert alone == {"bob": pytest.approx(found["bob"], abs=1e-6)}  # products of other shapes may round otherwise


def test_observing_one_by_one_equals_training_data_that_was_longer(folder, log, live):
    more = table(60, seed=1)
    more["when"] = more["when"] + 6_000
    rows = zip(more["who"], more["whom"], more["when"].tolist(), more["amount"].tolist(), more["kind"], strict=True)
    for who, whom, when, amount, kind in rows:
        live.observe([(who, whom, when, {"amount": amount, "kind": kind})])
    at_once = pintgn.open(folder)
    assert at_once.observe(more) == 60
    asked = [name for name in NAMES if name != "ann"]
    at = 1_700_020_000
    assert list(live.score("ann", asked, at).values()) == pytest.approx(
        list(at_once.score("ann", asked, at).values()), abs=1e-4
    )
    assert live.stream.events == at_once.stream.events == len(log) + 60


def test_scoring_changes_nothing_and_observing_matters(live):
    before = live.score("ann", NAMES, at=LATER)
    live.recommend("stranger", at=LATER)
    live.probability("ann", NAMES, at=LATER)
    assert live.score("ann", NAMES, at=LATER) == before
    live.observe([("ann", "bob", LATER - 10, card(5.0))])
    assert live.score("ann", NAMES, at=LATER) != before


def test_new_ids_are_new_nodes(live):
    known = len(live.names)
    assert np.isfinite(list(live.score("zoe", ["ann", "max"], at=LATER).values())).all()
    assert len(live.names) == known, "asking about someone does not make a node"
    live.observe([("zoe", "max", LATER, card(1.0)), ("zoe", "zoe", LATER, card(1.0))])
    assert live.names.ids[known:] == ["zoe", "max"]
    assert "max" in [one.dst for one in live.recommend("zoe", k=50)]


def test_recommendations_are_the_best_scores_in_order(live):
    found = live.recommend("ann", k=4, at=LATER)
    scores = live.score("ann", NAMES, at=LATER)
    best = sorted(scores.values(), reverse=True)[:4]
    assert [one.logit for one in found] == pytest.approx(best, abs=1e-4)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    assert [one.dst for one in live.recommend("ann", 1, among=["eve"])] == ["eve"]
    assert live.recommend("ann", 3, among=[]) == []
    with pytest.raises(BadInput, match="k=0"):
        live.recommend("ann", 0)


def test_by_default_a_question_is_asked_right_after_the_newest_event(live):
    assert live.score("ann", "bob") == live.score("ann", "bob", at=live.clock + 1)
    assert live.score("ann", "bob") != live.score("ann", "bob", at=live.clock)


def test_an_opened_run_does_not_disturb_the_run(log):
    run = fit(PINT(**SMALL), log, **QUICK | {"epochs": 1})
    pintgn.open(run).observe([("ann", "bob", LATER, card(5.0))])
    assert run.stream.events == len(log)


def test_embeddings_have_an_id_each(live):
    ids, matrix = live.embed(at=LATER)
    assert ids == live.names.ids
    assert matrix.shape == (len(ids), SMALL["dim"])
    some, rows = live.embed(["bob", "ann"], at=LATER)
    assert some == ["bob", "ann"]
    assert rows == pytest.approx(matrix[[ids.index("bob"), ids.index("ann")]], abs=1e-4)
    with pytest.raises(BadInput, match="side"):
        live.embed(["bob"], side="left")


def test_predictions_keep_rows_ids_and_times(live, tmp_path):
    pairs = {"who": ["ann", "zoe", "bob"], "whom": ["bob", "ann", "new"], "when": [LATER + 5, LATER, LATER + 9]}
    found = predict(live, pairs).to_pydict()
    assert {name: found[name] for name in pairs} == pairs
    for row, logit in enumerate(found["logit"]):
        expected = live.score(pairs["who"][row], pairs["whom"][row], at=pairs["when"][row])
        assert logit == pytest.approx(next(iter(expected.values())), abs=1e-4)
    path = tmp_path / "pairs.csv"
    path.write_text("src,dst\nann,bob\n")
    assert predict(live, path, at=LATER).column("when").to_pylist() == [LATER]
    assert predict(live, path).num_rows == 1
    with pytest.raises(UnknownName, match="whom"):
        predict(live, {"who": ["ann"], "whim": ["bob"]})


# -- wrong input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([(7, "bob", LATER, card(1.0))], "node ids here are text, given 7 (int)"),
        ([("ann", None, LATER, card(1.0))], "has no dst"),
        ([("ann", "bob", LATER)], "has no feature 'amount'; this run expects amount, kind"),
        ([("ann", "bob", LATER, {"amount": 1.0})], "has no feature 'kind'"),
        ([("ann", "bob", LATER, card(1.0) | {"amout": 2})], "amout\", which is unknown. Did you mean 'amount'"),
        ([("ann", "bob", LATER, card("much"))], "'amount' is a finite number in single precision, given \"much\""),
        ([("ann", "bob", LATER, card(float("nan")))], "'amount' is a finite number in single precision, given NaN"),
        ([("ann", "bob", LATER, [1.0, 2.0])], "(src, dst, t, {feature: value})"),
        ([("ann", "bob")], "an event is (src, dst, t)"),
        (["ann"], "an event is (src, dst, t)"),
        ([("ann", "bob", "now", card(1.0))], "times here are numbers, given 'now' (str)"),
        ([("ann", "bob", 1.5, card(1.0))], "times here are whole numbers, given 1.5"),
        ([("ann", "bob", True, card(1.0))], "times here are numbers, given True"),
        ([("ann", "bob", 5, card(1.0))], "already observed"),
        (
            [("ann", "bob", LATER, card(1.0)), ("ann", "bob", LATER - 1, card(1.0))],
            "Sort the events of a batch by time",
        ),
    ],
)
def test_a_wrong_event_is_one_line_and_changes_nothing(live, events, message):
    before, nodes = live.stream.events, len(live.names)
    with pytest.raises(BadInput) as error:
        live.observe(events)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert (live.stream.events, len(live.names)) == (before, nodes)


def test_wrong_questions_are_one_line(live):
    with pytest.raises(BadInput, match=r"given 7 \(int\)"):
        live.score(7, "bob")
    with pytest.raises(StaleQuery, match="already observed .* ask about that time or a later one"):
        live.score("ann", "bob", at=5)
    with pytest.raises(StaleQuery, match="ask about that time or a later one"):
        live.recommend("ann", at=5)
    with pytest.raises(BadInput, match="node numbers of its own"):
        live.observe(random_log())
    with pytest.raises(BadFile, match="holds no run"):
        pintgn.open("nowhere")


def test_a_category_never_seen_is_a_warning_and_counts_as_none(live):
    with pytest.warns(PintgnWarning, match="kind='check' was not in the training data"):
        live.observe([("ann", "bob", LATER, {"amount": 1.0, "kind": "check"})])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live.observe([("ann", "bob", LATER, card(1.0))])


# -- other logs ----------------------------------------------------------------------------------------------------


def test_whole_numbers_as_ids():
    log = random_log(300, 15)
    live = pintgn.open(fit(PINT(**SMALL), log, **QUICK | {"epochs": 1}))
    live.observe([(3, np.int64(1_000), int(log.t[-1]) + 1)])
    assert live.names.ids[-1] == 1_000
    with pytest.raises(BadInput, match=r"node ids here are whole numbers, given 'ann' \(str\)"):
        live.score("ann", [3])
    with pytest.raises(UnknownName, match="trained without any"):
        live.observe([(3, 4, int(log.t[-1]) + 1, {"amount": 1.0})])
    found = predict(live, {"src": [3, 4], "dst": [4, 5_000]})
    assert found.column("dst").to_pylist() == [4, 5_000]


def test_dates_are_understood_as_they_are_written():
    given = table()
    when = [datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=int(t - 1_700_000_000)) for t in given["when"]]
    log = read_events(given | {"when": when}, src="who", dst="whom", t="when")
    live = pintgn.open(fit(PINT(**SMALL), log, **QUICK | {"epochs": 1}))
    moments = ["2024-02-01", datetime.datetime(2024, 2, 1), datetime.date(2024, 2, 1), np.datetime64("2024-02-01")]
    scores = [live.score("ann", "bob", at=moment)["bob"] for moment in moments]
    assert len(set(scores)) == 1
    assert live.observe([("ann", "bob", "2024-02-01T12:00", {})]) == 1
    assert "2024-02-01 12:00" in repr(live)
    with pytest.raises(BadInput, match="neither a number nor a date"):
        live.score("ann", "bob", at="tomorrow")
    with pytest.raises(BadInput, match="without a time zone"):
        live.score("ann", "bob", at=datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC))
    found = predict(live, {"who": ["ann"], "whom": ["bob"], "when": [datetime.datetime(2024, 3, 1)]})
    assert found.column("when").to_pylist() == [datetime.datetime(2024, 3, 1)]


def test_sources_and_destinations_named_apart():
    rng = np.random.default_rng(0)
    given = {"src": rng.integers(0, 6, 300), "dst": rng.integers(0, 6, 300), "t": np.arange(300)}
    live = pintgn.open(fit(PINT(**SMALL), read_events(given, bipartite=True), **QUICK | {"epochs": 1}))
    assert len(live.names) == 12
    live.observe([(9, 9, 400)])
    assert len(live.names) == 14
    found = [one.dst for one in live.recommend(9, k=20)]
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 9]
    assert live.embed([0], side="src")[1].tolist() != live.embed([0], side="dst")[1].tolist()
    assert np.isfinite(live.score(77, [77, 78])[77])


def test_deletions_can_be_observed():
    rng = np.random.default_rng(0)
    given = {
        "src": [NAMES[k] for k in rng.integers(0, 6, 300)],
        "dst": [NAMES[6 + k] for k in rng.integers(0, 6, 300)],
        "t": np.arange(300),
        "op": ["delete" if k else "add" for k in rng.random(300) < 0.2],
    }
    live = pintgn.open(fit(PINT(**SMALL), read_events(given, columns=Columns(op="op")), **QUICK | {"epochs": 1}))
    assert live.observe([("ann", "hal", 400), ("ann", "hal", 401, {"op": "delete"})]) == 2
    assert live.observe([("zoe", "max", 402)]) == 1
    assert live.names.ids[-2:] == ["zoe", "max"]
    live.observe([("zoe", "ann", 403, {})])
    assert live.stream.history.event_table[live.stream.events - 3, 0] == 1, "the deletion is marked"
    with pytest.raises(UnknownName, match="trained without any"):
        live.observe([("ann", "hal", 500, {"amount": 3})])


def test_a_model_without_embeddings_says_so(log):
    from tests.learn.test_evaluate import Looks

    live = pintgn.open(fit(Looks(), log, **QUICK))
    with pytest.raises(BadInput, match="Looks scores links"):
        live.embed()


def test_a_run_with_a_model_of_your_own_is_opened_with_its_class(log, tmp_path):
    class Mine(PINT):
        pass

    fit(Mine(**SMALL), log, folder=tmp_path / "run", **QUICK | {"epochs": 1})
    live = pintgn.open(tmp_path / "run", Mine)
    assert np.isfinite(live.score("ann", "bob")["bob"])
    with pytest.raises(BadInput, match="Mine"):
        pintgn.open(tmp_path / "run")


# -- calibration ---------------------------------------------------------------------------------------------------


def test_probabilities_are_frequencies():
    rng = np.random.default_rng(0)
    truth = rng.random(40_000) < 0.5
    logits = 3 * (rng.normal(0, 1, 40_000) + np.where(truth, 1.0, -1.0)) - 4  # a steep, shifted score
    scores = Scores(logits[truth], logits[~truth][: truth.sum()])
    scores = Scores(scores.positive[: len(scores.negative)], scores.negative)
    fitted = Calibration.of(scores)
    # of N(1, 1) against N(-1, 1) the log odds at x are 2x; here x = (logit + 4) / 3
    assert fitted.slope == pytest.approx(2 / 3, rel=0.05)
    assert fitted.offset == pytest.approx(8 / 3, rel=0.05)
    assert expected_error(fitted, scores) < 0.01 < expected_error(Calibration(), scores)


@pytest.mark.parametrize("case", ["apart", "backwards", "constant", "none"])
def test_calibration_is_finite_and_keeps_the_order_whatever_the_scores(case):
    positive = {"apart": np.full(50, 9.0), "backwards": np.linspace(-2, -1, 50), "constant": np.zeros(50)}
    scores = Scores(positive.get(case, np.zeros(0)), np.zeros(0 if case == "none" else 50))
    fitted = Calibration.of(scores)
    p = fitted(np.array([-1e9, -1.0, 0.0, 1.0, 1e9]))
    assert np.isfinite(p).all()
    assert (np.diff(p) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_probability_keeps_the_order_of_scores(live):
    scores, probabilities = live.score("ann", NAMES, LATER), live.probability("ann", NAMES, LATER)
    assert sorted(NAMES, key=scores.get) == sorted(NAMES, key=probabilities.get)


def test_names_are_logs_own_ids(log):
    from pintgn.live.nodes import Names

    names = Names(log.ids)
    assert names.id_map() == log.ids
    assert isinstance(names.id_map().decode(), pa.Array)
    assert isinstance(log, EventLog)


def test_a_late_event_is_told_in_the_logs_own_time(live):
    with pytest.raises(EventOrderError, match="already observed"):
        live.observe([("ann", "bob", 1_600_000_000, card(1.0))])
