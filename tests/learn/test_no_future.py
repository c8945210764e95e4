"""Nothing that is learned, chosen or calibrated knows what comes later: whatever happens in a later part of the log, a
run is the same, bit for bit, up to that part.

Later events are replaced by others: other nodes, other pairs, other times in order, other features and categories.
"""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest

import pintgn
from paper.classify import classify
from pintgn import ADD, DELETE, Columns, EventLog, evaluate, read_events, tune
from pintgn.errors import PintgnWarning
from pintgn.learn import defaults, paper
from pintgn.learn import fit as fitting
from pintgn.learn.protocol import Parts, destinations
from pintgn.learn.settings import Settings
from pintgn.models.registry import MODELS
from tests.learn.helpers import random_log, tiny

EVENTS, NODES, MORE = 400, 24, 6


@cache
def plain() -> EventLog:
    """Events of every kind, with features of events and nodes. All times differ, so the parts are 280, 60 and 60."""
    rng = np.random.default_rng(1)
    columns = {
        "features": rng.normal(size=(EVENTS, 2)).astype(np.float32),
        "op": np.where(rng.random(EVENTS) < 0.1, DELETE, ADD),
        "label": (rng.random(EVENTS) < 0.4).astype(np.int64),
        "node_features": rng.normal(size=(NODES, 2)).astype(np.float32),
    }
    drawn = random_log(EVENTS, NODES, 3)
    return EventLog(drawn.src, drawn.dst, np.cumsum(rng.integers(1, 9, EVENTS)), **columns)


@cache
def scrambled(begin: int, keep_nodes: bool = False) -> EventLog:
    """The same up to an event, and nothing alike from there on.

    With `keep_nodes` the nodes of the later events are the same as a whole, in other pairs: which nodes are hidden from
    training is drawn from those that appear later (TGN's rule), so that where some are hidden this may not change.
    """
    log, rng = plain(), np.random.default_rng(2)
    later = EVENTS - begin
    if keep_nodes:
        ends = rng.permutation(np.concatenate([log.src[begin:], log.dst[begin:]]))
    else:
        ends = rng.integers(NODES // 2, NODES + MORE, 2 * later)
        ends[:MORE] = ends[later : later + MORE] = NODES + np.arange(MORE)  # nobody has met them before
    src, dst, t = (np.array(column) for column in (log.src, log.dst, log.t))
    src[begin:], dst[begin:] = ends[:later], ends[later:]
    t[begin:] = t[begin - 1] + np.cumsum(rng.integers(1, 5_000, later))
    features, op, label = (np.array(column) for column in (log.features, log.op, log.label))
    features[begin:] = 100 + 1_000 * rng.normal(size=(later, 2))
    op[begin:], label[begin:] = rng.permutation(op[begin:]), rng.permutation(label[begin:])
    count = NODES if keep_nodes else NODES + MORE
    node_features = (50 + 300 * rng.normal(size=(count, 2))).astype(np.float32)
    known = np.unique(np.concatenate([log.src[:begin], log.dst[:begin]]))
    node_features[known] = log.node_features[known]
    found = EventLog(src, dst, t, features=features, op=op, label=label, node_features=node_features)
    assert found[:begin].where(np.ones(begin, bool)).t.tolist() == log.t[:begin].tolist()
    return found


def known_later(log: EventLog, task: str, begin: int | None = None) -> EventLog:
    """The log with times at which its labels become known, up to 300 after the event. Given where the future begins,
    labels that are not known by then are others, and become known at other times."""
    delay = np.random.default_rng(4).integers(0, 300, EVENTS)
    delay[np.random.default_rng(5).random(EVENTS) < 0.3] = 0  # some are known at once
    return scramble_unknown(log, task, log.t + delay, begin)


def scramble_unknown(log: EventLog, task: str, known: np.ndarray, begin: int | None) -> EventLog:
    """The log with targets that become known at these times; those not known by `begin` are others if that is given."""
    label, rng = np.array(log.label), np.random.default_rng(6)
    features = np.array(log.features)
    if begin is not None:
        unknown = known > plain().t[begin - 1]
        if task == "classes":
            label[unknown] = 1 - label[unknown]
        else:
            features[unknown, 0] = rng.normal(size=int(unknown.sum())) * 50
        known = np.where(unknown, known + rng.integers(0, 5_000, EVENTS), known)
    return EventLog(
        log.src, log.dst, log.t, features=features, label=label, op=log.op, known=known, node_features=log.node_features
    )


def borders(log: EventLog) -> tuple[int, int]:
    _, val, test = log.split()
    return val.first, test.first


def trained(log: EventLog, given: dict) -> dict:
    """All that learning found out, and the weights at the end of each epoch."""
    settings = Settings.of(given)
    model, weights = fitting.resolved(settings, log).make_model(), []

    def watch(entry):
        if "val" in entry:
            weights.append({name: value.numpy().tobytes() for name, value in model.state_dict().items()})

    tables = [given.get(table, {}) for table in ("train", "stream", "task")]
    run = fitting.fit(model, log, progress=watch, **tables[0], **tables[1], **tables[2])
    return {
        "settings": run.settings.to_dict(),
        "time scale": run.schema.time_scale,
        "scaling": run.scaling,
        "weights of each epoch": weights,
        "losses": [entry["loss"] for entry in run.history],
        "validation": [entry["val"] for entry in run.history],
        "best epoch": run.best_epoch,
        "weights": {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()},
        "calibration": run.calibration and dataclasses.asdict(run.calibration),
        "next slope": run.next_slope,
        "answer calibration": run.answer_calibration,
        "test": run.test,
    }


KNOWN_BEFORE_TEST = (
    "settings", "time scale", "scaling", "weights of each epoch", "losses", "validation", "best epoch", "weights",
    "calibration", "next slope", "answer calibration",
)  # fmt: skip
KNOWN_BEFORE_VALIDATION = ("settings", "time scale", "scaling", "weights of each epoch", "losses")


def check(given: dict, keep_nodes: bool = False, before_test=KNOWN_BEFORE_TEST) -> None:
    """What a run knows before a part begins is the same when that part and all after it are others."""
    val, test = borders(plain())
    as_it_is = trained(plain(), given)
    for begin, known in ((test, before_test), (val, KNOWN_BEFORE_VALIDATION)):
        other = trained(scrambled(begin, keep_nodes), given)
        assert {key: other[key] for key in known} == {key: as_it_is[key] for key in known}
        if as_it_is["test"]:
            assert other["test"] != as_it_is["test"], "else nothing was scrambled"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_nothing_learned_depends_on_what_comes_later(name):
    check(tiny(name, hidden=0.0, epochs=2))


def test_the_chosen_epoch_and_its_weights_do_not_depend_on_the_test_part():
    """Of several epochs; nor does how long a refit trains."""
    given = tiny("pint", hidden=0.0, epochs=8, learning_rate=0.1, average=0.0, schedule="constant")
    one, other = (fitting.fit(Settings.of(given), log, refit=True) for log in (plain(), scrambled(borders(plain())[1])))
    assert len({entry["val"]["all"]["ap"] for entry in one.history}) > 1, "else there was nothing to choose"
    assert one.best_epoch == other.best_epoch == one.refit.best_epoch == other.refit.best_epoch
    assert [entry["val"] for entry in one.history] == [entry["val"] for entry in other.history]
    weights = [
        {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()} for run in (one, other)
    ]
    assert weights[0] == weights[1]
    assert one.test != other.test, "else nothing was scrambled"


def test_nodes_are_hidden_by_who_appears_later_and_by_nothing_else():
    check(tiny("pint", hidden=0.2, epochs=2), keep_nodes=True)


def test_no_negatives_in_training_are_drawn_from_the_future():
    check(tiny("pint", hidden=0.0, epochs=2, negatives_per_event=2, historical=True))


def test_the_papers_protocol_trains_on_the_past_alone():
    """As in TGN's code its validation draws from all destinations of the log; weights and losses know none of them."""
    check(tiny("pint", hidden=0.0, epochs=2, protocol="paper"), before_test=KNOWN_BEFORE_VALIDATION)


@pytest.mark.parametrize("rank", ["all", 5])
def test_what_is_measured_on_validation_does_not_depend_on_test(rank):
    def figures(log):
        run = fitting.fit(Settings.of(tiny("pint", hidden=0.0)), log)
        return evaluate(run, ["random", "historical", "inductive", "per-event"], rank=rank, part="val").to_dict()

    assert figures(plain()) == figures(scrambled(borders(plain())[1]))


def test_a_search_finds_the_same_whatever_the_test_part_is(tmp_path):
    pytest.importorskip("optuna", reason="optuna is not installed; pip install 'pintgn[tune]'")
    space = {"train.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "model.layers": [1, 2]}
    logs = {"one": plain(), "other": scrambled(borders(plain())[1])}
    found = [
        tune(log, tmp_path / name, settings=tiny("pint", hidden=0.0, epochs=2), space=space, trials=3).to_dict()
        for name, log in logs.items()
    ]
    assert found[0] == found[1]


def test_a_classifier_of_nodes_is_chosen_whatever_the_test_part_is():
    runs = [
        classify(fitting.fit(Settings.of(tiny("tgn", hidden=0.0)), log), epochs=3)
        for log in (plain(), scrambled(borders(plain())[1]))
    ]
    assert runs[0].history == runs[1].history
    assert (runs[0].best_epoch, runs[0].val_auc) == (runs[1].best_epoch, runs[1].val_auc)
    assert runs[0].test_auc != runs[1].test_auc


def test_what_is_left_open_is_decided_by_the_training_part(monkeypatch):
    monkeypatch.setattr(defaults, "STEPS", 100)
    monkeypatch.setattr(defaults, "BUSY", 30)
    log, asked = plain(), Settings.of({"train": {"batch": 50}})
    by_training, by_all = (defaults.from_training(asked, part) for part in (log.split()[0], log))
    assert by_training.train.epochs != by_all.train.epochs
    assert by_training.model["neighbors"] != by_all.model["neighbors"]
    found = fitting.resolved(asked, log)
    assert found.train == by_training.train
    assert found.model == by_training.model


# -- questions about columns ----------------------------------------------------------------------------------------


TASKS = {"classes": {"predict": "label", "given": ["f1"]}, "values": {"predict": "f0", "given": ["f1"]}}


def check_task(given: dict, as_it_is: EventLog, other) -> None:
    """As `check`, with logs whose targets that are not known yet are others, too."""
    val, test = borders(plain())
    first = trained(as_it_is, given)
    for begin, known in ((test, KNOWN_BEFORE_TEST), (val, KNOWN_BEFORE_VALIDATION)):
        found = trained(other(begin), given)
        assert {key: found[key] for key in known} == {key: first[key] for key in known}
        assert found["test"] != first["test"], "else nothing was scrambled"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["pint", "tgn", "boosted"])
def test_answers_learned_with_targets_known_with_their_events(name, task):
    given = tiny(name, hidden=0.0, epochs=2) | {"task": TASKS[task]}
    check_task(given, plain(), scrambled)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["pint", "tgn", "boosted"])
def test_answers_learned_with_targets_known_some_time_later(name, task):
    given = tiny(name, hidden=0.0, epochs=2) | {"task": TASKS[task] | {"known_after": 120}}

    def other(begin: int) -> EventLog:
        log = scrambled(begin)
        made = scramble_unknown(log, task, log.t + 120, begin)
        return EventLog(
            made.src, made.dst, made.t, features=made.features, label=made.label, op=made.op,
            node_features=made.node_features,
        )  # fmt: skip

    check_task(given, plain(), other)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["pint", "tgn", "boosted"])
def test_answers_learned_with_targets_known_at_times_of_their_own(name, task):
    given = tiny(name, hidden=0.0, epochs=2) | {"task": TASKS[task]}
    check_task(given, known_later(plain(), task), lambda begin: known_later(scrambled(begin), task, begin))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("how", ["with the event", "after", "at"])
def test_an_answer_knows_no_target_before_its_time(how, task):
    """Whatever the targets are that are not known strictly before a question, the answer is the same, bit for bit."""
    given = tiny("pint", hidden=0.0) | {"task": TASKS[task] | ({"known_after": 120} if how == "after" else {})}
    log = known_later(plain(), task) if how == "at" else plain()
    run = fitting.fit(Settings.of(given), log)
    whole = run.view(log)
    late = whole.schema.late
    known = whole.t if whole.known is None else whole.known
    rng = np.random.default_rng(8)
    for row in (290, 340, EVENTS - 1):
        t = whole.t[row]
        unknown = known >= t
        other = np.array(whole.features)
        other[unknown, late] = rng.permutation(other[:, late])[: int(unknown.sum())]
        answers = []
        for features in (whole.features, other):
            seen = EventLog(
                whole.src, whole.dst, whole.t, features=features, op=whole.op, known=whole.known,
                node_features=whole.node_features, schema=whole.schema,
            )  # fmt: skip
            stream = run.new_stream()
            asked = run.task.query(seen[row : row + 1])
            answers.append(stream.replay(seen, [asked])[0].detach().numpy().tobytes())
        assert answers[0] == answers[1]


@pytest.mark.parametrize("task", ["return", "meet"])
@pytest.mark.parametrize("name", ["pint", "boosted"])
def test_answers_about_time_are_learned_once_the_horizon_has_passed(name, task):
    """What a later part changes are also answers about earlier times, as long as their horizon had not passed."""
    given = tiny(name, hidden=0.0, epochs=2) | {"task": {"predict": task, "within": 60}}
    check_task(given, plain(), scrambled)


# -- categories ----------------------------------------------------------------------------------------------------


def with_categories(first: list[str], later: list[str], encoding: str, features: list[str]) -> EventLog:
    """A log whose events have a kind, drawn from other kinds in the test part than before."""
    log, rng = plain(), np.random.default_rng(3)
    begin = borders(log)[1]
    kinds = rng.choice(first, EVENTS)
    kinds[begin:] = rng.choice(later, EVENTS - begin)
    columns = {"src": log.src, "dst": log.dst, "t": log.t, "kind": kinds.tolist(), "amount": log.features[:, 0]}
    return read_events(columns, features=features, columns=Columns(encoding=encoding))


LATER = pytest.mark.filterwarnings("ignore:the training part has no kind:pintgn.errors.PintgnWarning")


@LATER
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("encoding", ["onehot", "code"])
def test_categories_first_met_later_change_nothing_before(encoding, scale):
    """In sorted order a and c come between the known ones, so that codes and columns of the log move."""
    given, first = tiny("tgn", hidden=0.0, scale_features=scale), ["b", "d", "f"]
    one, other = (
        trained(with_categories(first, later, encoding, ["kind", "amount"]), given)
        for later in (first, ["a", "c", "d"])
    )
    assert {key: one[key] for key in KNOWN_BEFORE_TEST if key != "scaling"} == {
        key: other[key] for key in KNOWN_BEFORE_TEST if key != "scaling"
    }
    assert one["test"] != other["test"]


def test_a_category_first_met_later_counts_as_none(tmp_path):
    """In the log of a run, in a later file and in events one by one; the run's own log keeps it."""
    log = with_categories(["b", "d"], ["a", "d"], "onehot", ["kind"])
    with pytest.warns(PintgnWarning, match="the training part has no kind='a'; what first occurs later counts as none"):
        run = fitting.fit(Settings.of(tiny("tgn", hidden=0.0)), log, folder=tmp_path / "run")
    assert run.schema.feature_columns() == ["kind=b", "kind=d"]
    assert run.log.schema.feature_columns() == ["kind=a", "kind=b", "kind=d"]
    begin = borders(plain())[1]
    is_a = log.features[begin:, 0] == 1
    assert is_a.any()
    assert run.parts.test.features[is_a].tolist() == [[0, 0]] * int(is_a.sum())
    assert (run.parts.test.features[~is_a] == log.features[begin:][~is_a, 1:]).all()
    scores = []
    for kind, said in (
        ("a", nullcontext()),
        ("b", nullcontext()),
        ("z", pytest.warns(PintgnWarning, match="kind='z'")),
    ):
        live = pintgn.open(tmp_path / "run")
        with said:
            live.observe([(3, 4, int(log.t[-1]) + 1, {"kind": kind})])
        scores.append(live.score(3, [5], at=int(log.t[-1]) + 9))
    assert scores[0] == scores[2] != scores[1]


@LATER
def test_a_column_that_is_empty_in_training_is_no_feature(tmp_path):
    log = with_categories([""], ["a", "b"], "onehot", ["kind"])
    run = fitting.fit(Settings.of(tiny("tgn", hidden=0.0)), log, folder=tmp_path / "run")
    assert run.schema.width == 0
    live = pintgn.open(tmp_path / "run")
    live.observe([(3, 4, int(log.t[-1]) + 1, {"kind": "a"})])
    assert live.stream.events == EVENTS + 1


# -- who is drawn in the papers' protocol ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["val", "test"])
def test_in_the_papers_protocol_new_nodes_are_told_from_destinations_of_their_own_events(name, monkeypatch):
    log = random_log(3_000, 120, ties=1)
    parts = Parts.of(log, hidden=0.1)
    part = parts.named(name)
    only = part.where(parts.is_new(part))
    whole, own = destinations(log), destinations(only)
    assert len(own) < 0.8 * len(whole), "else one could not tell"
    asked = []

    def note(stream, part, drawn, new, told=None):
        asked.append((part, drawn["random"].query))
        return compare(stream, part, drawn, new, told)

    compare = paper.compare
    monkeypatch.setattr(paper, "compare", note)
    stream = fitting.fit(Settings.of(tiny("edgebank")), log[:200]).new_stream()
    stream.observe(parts.trained)
    paper.measure(stream, parts, part, ["random"], seed=0)
    (first, everyone), (second, inductive) = asked
    assert (len(first), len(second)) == (len(part), len(only))
    assert set(inductive.dst.tolist()) <= set(own.tolist())
    assert set(everyone.dst.tolist()) <= set(whole.tolist())
    assert not set(everyone.dst.tolist()) <= set(own.tolist())
    assert (inductive.src == only.scored_events.src).all()
