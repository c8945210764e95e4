"""Questions about columns: what is asked, what is known when, what is refused, and what never changes for links."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import pintgn
from pintgn import ADD, DELETE, PINT, Columns, EventLog, evaluate, fit, read_events
from pintgn.errors import BadInput, PintgnWarning, UnknownName
from pintgn.events.schema import Feature, Schema
from pintgn.learn import fit as fitting
from pintgn.learn.calibration import class_calibration, conformal
from pintgn.learn.figures_text import epoch_line, run_title
from pintgn.learn.metrics import class_metrics, value_metrics
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.stream import Stream
from tests.learn.helpers import tiny

EVENTS = 400


def events(seed=0, **more) -> dict:
    """Columns of payments whose fraud depends on the payee and the channel, whose tip depends on the payer."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 12, EVENTS), rng.integers(12, 24, EVENTS)
    web = rng.random(EVENTS) < 0.5
    fraud = rng.random(EVENTS) < np.where(dst % 3 == 0, 0.7, 0.1) + 0.2 * web
    amount = rng.gamma(2, 20, EVENTS)
    return {
        "src": src, "dst": dst, "t": np.cumsum(rng.integers(1, 9, EVENTS)), "amount": amount,
        "channel": np.where(web, "web", "shop").tolist(), "fraud": fraud.tolist(),
        "tip": 3.0 * (src % 2) + amount / 50 + rng.normal(size=EVENTS) / 10,
    } | more  # fmt: skip


FEATURES = ["amount", "channel", "fraud"]


def payments(**more) -> EventLog:
    return read_events(events(**more), features=FEATURES, label="tip")


def asked(name="pint", **task) -> Settings:
    given = tiny(name, hidden=0.0, epochs=2)
    return Settings.of(given | {"task": task})


FRAUD = {"predict": "fraud", "given": ["amount", "channel"]}
TIP = {"predict": "tip", "given": ["amount"]}


# -- what is asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pint", "tgn", "tgat", "jodie", "dyrep", "gat", "graphsage", "boosted"])
def test_models_classify_and_regress_columns(name):
    log = payments()
    classes, values = (fitting.fit(asked(name, **task), log) for task in (FRAUD, TIP))
    assert list(classes.test["all"]) == ["events", "ap", "auc", "log_loss", "macro_f1", "calibration_error"]
    assert list(values.test["all"]) == ["events", "mae", "rmse", "r2", "coverage"]
    assert classes.test["all"]["events"] == values.test["all"]["events"] == len(classes.parts.test)
    assert list(values.heuristics) == ["overall", "pair's last", "source's mean", "destination's mean"]


@pytest.mark.parametrize("name", ["caw", "ctdne", "edgebank", "heuristic"])
def test_models_that_only_score_links_are_refused(name):
    with pytest.raises(BadInput, match="cannot be asked about a column"):
        fitting.fit(asked(name, **FRAUD), payments())


def test_what_can_be_learned_is_learned():
    """Fraud depends on the payee and the channel alone: a chosen row per payee must not beat what knows both."""
    log = payments()
    found = fitting.fit(Settings.of({"train": {"epochs": 30, "hidden": 0.0}, "task": FRAUD}), log)
    assert found.test["all"]["ap"] > found.heuristics["overall"]["all"]["ap"] + 0.1
    tips = fitting.fit(Settings.of({"train": {"epochs": 30, "hidden": 0.0}, "task": TIP}), log)
    assert tips.test["all"]["r2"] > 0.5
    assert tips.test["all"]["r2"] > tips.heuristics["destination's mean"]["all"]["r2"]


def test_given_columns_reach_the_answer_and_others_do_not():
    log = payments()
    run = fitting.fit(asked(**FRAUD), log)
    stream, part = run.new_stream(), run.parts.test
    stream.observe(run.parts.before(part))
    query = run.task.query(part[:5])
    assert query.given.shape == (5, 3)  # the amount, and a column for each channel
    other = pintgn.Query(query.src, query.dst, query.t, query.given + 1)
    assert not np.allclose(stream.replay(None, [query])[0].detach(), stream.replay(None, [other])[0].detach())
    columns = log.schema.feature_columns()
    changed = log.features.copy()
    changed[len(log) - 1, columns.index("fraud=True")] = 1 - changed[len(log) - 1, columns.index("fraud=True")]
    again = EventLog(log.src, log.dst, log.t, features=changed, label=log.label, ids=log.ids, schema=log.schema)
    assert (run.task.query(run.view(again)[-1:]).given == run.task.query(run.view(log)[-1:]).given).all()


def test_a_label_of_a_node_is_asked_without_the_other_end():
    log = payments()
    run = fitting.fit(asked(predict="fraud", of="src"), log)
    query = run.task.query(run.parts.test)
    assert (query.dst == query.src).all()
    with pytest.raises(BadInput, match="nothing of an event can be given"):
        fitting.fit(asked(predict="fraud", of="src", given=["amount"]), log)


def test_events_without_a_target_happen_and_are_no_questions():
    tip = np.array(events()["tip"])
    tip[::3] = np.nan
    log = payments(tip=tip)
    run = fitting.fit(asked(**TIP), log)
    assert run.test["all"]["events"] == int((~np.isnan(log.label[run.parts.test.first :])).sum())
    assert run.stream.events == len(log)


def test_deletions_are_no_questions():
    op = np.where(np.arange(EVENTS) % 5 == 4, DELETE, ADD)
    log = read_events(events(op=op), features=FEATURES, label="tip", columns=Columns(op="op"))
    run = fitting.fit(asked(**FRAUD), log)
    assert run.test["all"]["events"] == int(run.parts.test.learnable.sum())


# -- known when --------------------------------------------------------------------------------------------------------


def look_ups(run, log: EventLog, at, src, dst):
    """What a question sees of earlier answers."""
    stream = run.new_stream()
    stream.observe(run.view(log))
    found = stream.history.late_features().index.look_up(np.array([src]), np.array([dst]), np.array([at], log.t.dtype))
    return found.count[0, 2]


def test_a_target_is_part_of_the_past_once_it_is_known():
    log = payments()
    first, end = int(log.t[0]), int(log.t[-1])
    pair = int(log.src[0]), int(log.dst[0])
    met = log.t[(log.src == pair[0]) & (log.dst == pair[1])]
    with_event, later = (fitting.fit(asked(**FRAUD, **more), log) for more in ({}, {"known_after": 100}))
    for at in (first, first + 1, first + 100, first + 101, end + 1, end + 500):
        assert look_ups(with_event, log, max(at, end), *pair) == (met < max(at, end)).sum()
        assert look_ups(later, log, max(at, end), *pair) == (met + 100 < max(at, end)).sum()


def test_an_event_shows_its_target_in_trees_only_from_its_time_on():
    log = payments()
    run = fitting.fit(asked(**FRAUD, known_after=50), log)
    stream = run.new_stream()
    stream.observe(run.view(log))
    late = stream.schema.late
    for ahead, visible in ((50, False), (51, True)):
        t = np.array([log.t[-1] + ahead])
        view = stream._view(t, np.array([len(log)]))
        found = view.event_features(np.array([[len(log) - 1]]), np.array([[True]]))[0, 0]
        assert found[late].any() == visible
        distinct, row = view.distinct_features(np.array([[len(log) - 1]]), np.array([[True]]), np.array([0]))
        assert (distinct[row.ravel()[0]] == found).all()


@pytest.mark.parametrize("how", ["known_after", "known_at"])
def test_answers_do_not_depend_on_batches_or_on_being_saved(how, tmp_path):
    columns = events()
    known = columns["t"] + np.random.default_rng(3).integers(0, 200, EVENTS)
    log = read_events(
        columns | {"settled": known},
        features=FEATURES,
        columns=Columns(known_at="settled" if how == "known_at" else None),
    )
    run = fitting.fit(asked(**FRAUD, **({"known_after": 60} if how == "known_after" else {})), log)
    whole = run.view(log)
    query = run.task.query(whole)

    def answers(size: int) -> np.ndarray:
        stream, found = run.new_stream(), []
        for batch in whole.batches(size):
            begin = batch.first
            found.append(stream.replay(batch, [query[begin : begin + len(batch)]])[0].detach().numpy())
        return np.concatenate(found)

    one = answers(EVENTS)
    np.testing.assert_allclose(answers(7), one, atol=1e-5)
    stream = run.new_stream()
    stream.observe(whole[:300])
    stream.save(tmp_path / "stream")
    again = Stream.open(tmp_path / "stream")
    later = query[300:320]
    assert (stream.replay(None, [later])[0] == again.replay(None, [later])[0]).all()
    stream.observe(whole[300:])
    again.observe(whole[300:])
    after = pintgn.Query(query.src, query.dst, np.full(EVENTS, whole.t[-1] + 300), query.given)
    assert (stream.replay(None, [after])[0] == again.replay(None, [after])[0]).all()


def test_training_learns_from_no_target_that_became_known_after_its_end():
    run = fitting.fit(asked(**FRAUD, known_after=100), payments())
    query, truth = run.task.training_questions(run.parts.train, run.parts, np.random.default_rng(0))
    assert len(truth) == int((run.parts.train.t + 100 <= run.parts.train.t[-1]).sum()) < len(run.parts.train)
    assert query.t.max() + 100 <= run.parts.train.t[-1]


def test_a_log_remembers_when_targets_become_known(tmp_path):
    columns = events()
    settled = [None if k % 7 == 0 else int(t) + k % 50 for k, t in enumerate(columns["t"])]
    log = read_events(columns | {"settled": settled}, features=FEATURES, columns=Columns(known_at="settled"))
    log.save(tmp_path / "log.parquet")
    again = EventLog.open(tmp_path / "log.parquet")
    assert again == log
    assert again.known.tolist() == log.known.tolist()
    assert (
        read_events(log.to_table(), features=FEATURES, columns=Columns(known_at="settled")).known.tolist()
        == log.known.tolist()
    )
    pintgn.write_events(log, tmp_path / "log.csv")
    text = read_events(tmp_path / "log.csv", features=FEATURES, columns=Columns(known_at="settled"))
    assert text.known.tolist() == log.known.tolist()
    dates = np.array(columns["t"], "datetime64[s]")
    when = pa.array([None if one is None else np.datetime64(one, "s") for one in settled], pa.timestamp("s"))
    dated = read_events(
        pa.table(columns | {"t": dates, "settled": when}), features=FEATURES, columns=Columns(known_at="settled")
    )
    assert dated.known.tolist() == log.known.tolist()


# -- measured ----------------------------------------------------------------------------------------------------------


def test_measures_of_classes_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for classes in (2, 4):
        logits, truth = rng.normal(size=(300, classes)), rng.integers(0, classes, 300)
        found = class_metrics(logits, truth)
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, p))
        assert found["macro_f1"] == pytest.approx(metrics.f1_score(truth, p.argmax(1), average="macro"))
        if classes == 2:
            assert found["ap"] == pytest.approx(metrics.average_precision_score(truth, p[:, 1]))
            assert found["auc"] == pytest.approx(metrics.roc_auc_score(truth, p[:, 1]))
        else:
            margin = np.log(p)
            each = [metrics.average_precision_score(truth == k, margin[:, k]) for k in range(classes)]
            assert found["ap"] == pytest.approx(np.mean(each))


def test_measures_of_values_by_hand():
    truth = np.array([0.0, 2.0])
    found = value_metrics(np.array([[1.0, -1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.5]]), truth)
    # medians miss by 0 and 1; means by 1 each, as does the mean of both: R² is 0; the first interval holds its truth
    assert found == {"events": 2, "mae": 0.5, "rmse": 1.0, "r2": 0.0, "coverage": 0.5}
    assert value_metrics(truth[:0, None], truth[:0])["mae"] is None


def test_calibration_of_two_classes_finds_scale_and_offset():
    rng = np.random.default_rng(0)
    z = rng.normal(size=20_000) * 2
    truth = (rng.random(20_000) < 1 / (1 + np.exp(-(0.5 * z - 1)))).astype(float)
    found = class_calibration(np.stack([np.zeros_like(z), z], 1), truth)
    assert found["temperature"] == pytest.approx(2, rel=0.1)
    assert found["offset"] == pytest.approx(-1, abs=0.1)


def test_runs_about_columns_are_evaluated_kept_and_continued(tmp_path):
    log = payments()
    run = fitting.fit(asked(**FRAUD), log, folder=tmp_path / "run", refit=True)
    found = evaluate(tmp_path / "run")
    rows = found.negatives["fraud"]
    assert rows["pint"] == run.test
    assert {name: rows[name] for name in run.heuristics} == run.heuristics
    assert "fraud" in str(found)
    assert list(evaluate(run, baselines=["boosted"]).negatives["fraud"]) == ["pint", "boosted"]
    with pytest.raises(BadInput, match="leave out negatives and rank"):
        evaluate(run, "historical")
    again = fitting.fit(asked(**FRAUD), log, folder=tmp_path / "run")
    assert again.test == run.test
    assert again.answer_calibration == run.answer_calibration
    with pytest.raises(BadInput, match="task.given"):
        fitting.fit(asked(predict="fraud"), log, folder=tmp_path / "run")


def test_a_report_about_a_column_has_every_figure(tmp_path):
    from pintgn.learn.figures_text import figure
    from pintgn.report.write import write_report

    runs = [fitting.fit(asked(**task), payments()) for task in (FRAUD, TIP)]
    for run in runs:
        report = write_report(run, tmp_path / "report.html")
        html = (tmp_path / "report.html").read_text()
        shown = [run.test, *run.heuristics.values()]
        figures = [(name, value) for groups in shown for name, value in groups["all"].items() if name != "events"]
        assert all(figure(name, value) in html for name, value in figures)
        assert run.settings.task.predict in report.headline
        assert "<script" not in html
    with pytest.raises(BadInput, match="asked the same"):
        write_report(runs, tmp_path / "both.html")


def test_a_run_on_other_labels_is_another_run(tmp_path):
    fitting.fit(asked(**TIP), payments(), folder=tmp_path / "run")
    other = payments(tip=np.array(events()["tip"]) + 1)
    with pytest.raises(BadInput, match="on other labels"):
        fitting.fit(asked(**TIP), other, folder=tmp_path / "run")


def test_negatives_belong_to_links():
    with pytest.raises(BadInput, match="negatives belong to links"):
        fitting.fit(asked(**FRAUD), payments(), negatives=lambda part, rng: part.query)


# -- in use ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [FRAUD, TIP], ids=["classes", "values"])
def test_a_run_in_use_answers_about_events(task, tmp_path):
    log = payments()
    fitting.fit(asked(**task), log, folder=tmp_path / "run")
    live = pintgn.open(tmp_path / "run")
    given = {name: {"amount": 30.0, "channel": "web"}[name] for name in task["given"]}
    first = live.ask([1], [12], [given])
    end = int(log.t[-1])
    rest = {"amount": 30.0, "channel": "web"}
    known = {"fraud": True, "tip": 9.5}
    live.observe([(1, 12, end + 1, rest | {"fraud": True} | ({"tip": 9.5} if task is TIP else {}))])
    live.observe([(1, 12, end + 2, rest | ({"fraud": True} if task is TIP else {}))])  # not known yet
    assert live.events == len(log) + 2
    second = live.ask([1], [12], [given])
    assert first.keys() == second.keys()
    assert first != second
    if task is FRAUD:
        assert first["fraud"][0] in (True, False)
        assert first["fraud=True"] + first["fraud=False"] == pytest.approx(1)
    else:
        assert first["low"] <= first["median"] <= first["high"]
    table = live.predict({"src": [1, 2], "dst": [12, 13]} | {name: [given[name]] * 2 for name in given})
    assert table.column_names[:3] == ["src", "dst", "t"]
    assert known.keys() & set(table.column_names)
    with pytest.raises(BadInput, match="not links"):
        live.score(1, [12])
    with pytest.raises(BadInput, match="not links"):
        live.recommend(1)
    assert live.explain(1, 12, given=given).said
    with pytest.raises(BadInput, match="amount"):
        live.ask([1], [12])


@pytest.mark.parametrize(
    ("task", "column"),
    [({"predict": "fraud", "of": "src"}, "src"), ({"predict": "fraud", "of": "dst"}, "dst"),
     ({"predict": "return", "within": 5}, "src")],
)  # fmt: skip
def test_a_question_about_a_node_needs_its_column_only(task, column):
    live = pintgn.open(fitting.fit(asked(**task), payments()))
    table = live.predict({column: [1, 12, 99_999]})
    assert table.column_names[0] == column
    assert table["notes"].to_pylist()[-1] == f"unknown {column}"
    both = live.predict({"src": [1, 12, 99_999], "dst": [1, 12, 99_999]})
    assert table.equals(both)
    with pytest.raises(UnknownName, match=f"has no column '{column}'"):
        live.predict({"dst" if column == "src" else "src": [1]})


def test_a_run_in_use_is_the_run_that_was_measured(tmp_path):
    """What was asked about the test part is answered alike by a stream and, event by event, in use."""
    columns = events()
    log = read_events(columns, features=FEATURES, label="tip")
    run = fitting.fit(asked(**FRAUD, known_after=30), log[:380])
    live = pintgn.open(run)
    stream, whole = run.stream.fork(), run.view(log)
    for k in range(380, 400):
        t = int(log.t[k])
        given = {"amount": float(columns["amount"][k]), "channel": columns["channel"][k]}
        src, dst = int(columns["src"][k]), int(columns["dst"][k])
        said = live.ask([src], [dst], [given], at=t)
        answer = stream.replay(None, [run.task.query(whole[k : k + 1])])[0].detach().numpy()
        expected = run.task.shown(run.task.calibrated(answer, run.answer_calibration))
        assert said["fraud=True"] == pytest.approx(expected["fraud=True"], abs=1e-5)
        live.observe([(src, dst, t, given | {"fraud": columns["fraud"][k]})])
        stream.observe(whole[k : k + 1])


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "error", "words"),
    [
        ({"predict": "fraud", "given": ["fraud"]}, BadInput, "is what is predicted, so it cannot be given"),
        ({"predict": "fruad"}, UnknownName, "Did you mean 'fraud'"),
        ({"predict": "fraud", "given": ["amuont"]}, UnknownName, "Did you mean 'amount'"),
        ({"predict": "fraud", "known_after": 10**9}, BadInput, "longer than the training part"),
        ({"predict": "fraud", "known_after": -1}, BadInput, "from 0 on"),
        ({"predict": "fraud", "known_after": "soon"}, BadInput, "no length of time"),
        ({"predict": "fraud", "of": "both"}, UnknownName, "'src' or 'dst'|There are|does not exist"),
        ({"predict": "fraud", "within": 5}, BadInput, "belongs to predict='return'"),
        ({"given": ["amount"]}, BadInput, "needs a column to predict"),
        ({"predict": "fraud", "given": "amount"}, BadInput, "a list of columns"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(task, error, words):
    with pytest.raises(error, match=words) as caught:
        fitting.fit(asked(**task), payments())
    assert "\n" not in str(caught.value)


def test_a_constant_target_is_refused():
    with pytest.raises(BadInput, match="the same in all 280 training events"):
        fitting.fit(asked(predict="fraud"), payments(fraud=[True] * EVENTS))
    late = np.where(np.arange(EVENTS) < 300, 1.5, 2.5)
    with pytest.raises(BadInput, match="the same in all"):
        fitting.fit(asked(predict="tip"), payments(tip=late))


def test_a_target_that_is_always_missing_is_refused():
    with pytest.raises(BadInput, match="no event of the training part has a value"):
        fitting.fit(asked(predict="tip"), payments(tip=np.full(EVENTS, np.nan)))


def test_a_part_without_enough_targets_is_refused():
    tip = np.array(events()["tip"])
    tip[345:] = np.nan
    with pytest.raises(BadInput, match="It takes at least 10"):
        fitting.fit(asked(**TIP), payments(tip=tip))


def test_a_class_seen_only_in_test_is_no_question():
    channel = np.array(events()["channel"])
    channel[[350, 360, 370]] = "fax"
    with pytest.warns(PintgnWarning, match="has no channel='fax'; 3 events of a class that was never met happen"):
        run = fitting.fit(asked(predict="channel"), payments(channel=channel.tolist()))
    assert run.test["all"]["events"] == 57


def test_when_a_target_becomes_known_is_no_feature():
    with pytest.raises(BadInput, match="it is no feature"):
        read_events(events(), features=["amount", "tip"], columns=Columns(known_at="tip"))


def test_two_ways_of_becoming_known_exclude_each_other():
    columns = events()
    log = read_events(columns | {"settled": columns["t"] + 5}, features=FEATURES, columns=Columns(known_at="settled"))
    with pytest.raises(BadInput, match="exclude each other"):
        fitting.fit(asked(**FRAUD, known_after=5), log)


def test_too_many_classes_are_refused(monkeypatch):
    from pintgn.learn.tasks import column

    for most, fits in ((1, False), (2, True), (3, True)):
        monkeypatch.setattr(column, "MOST_CLASSES", most)
        if fits:
            fitting.fit(asked(predict="channel"), payments())
        else:
            with pytest.raises(BadInput, match="at most 1 can be told apart"):
                fitting.fit(asked(predict="channel"), payments())


def test_hashed_categories_are_refused():
    log = EventLog([0, 1] * 50, [1, 2] * 50, range(100), features=np.ones((100, 32)), schema=Schema(
        features=(Feature("kind", "hash"),)
    ))  # fmt: skip
    with pytest.raises(BadInput, match="--encoding kind=code"):
        fitting.fit(asked(predict="kind"), log)


def test_a_report_says_whether_a_run_is_ahead_of_what_needs_no_training():
    from pintgn.report.task_page import content, verdict

    run = fitting.fit(asked(**TIP), payments())
    best = dict(run.test["all"])
    run.heuristics = {"worse": {group: best | {"rmse": best["rmse"] + 1} for group in run.test}}
    assert "better than every training-free row" in verdict(run)
    run.heuristics["better"] = {group: best | {"rmse": best["rmse"] / 2} for group in run.test}
    assert "Without training, better is as good or better" in verdict(run)
    assert content([run]).sections["Results"].count("<table>") == len(run.test)


# -- numbers far from 0 --------------------------------------------------------------------------------------------


def shifted(shift: float, scale: float = 1.0, read: str = "features", gaps: bool = False):
    """Small whole numbers by source, moved and scaled; every seventh is missing where that is asked."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 12, 600), rng.integers(0, 12, 600)
    y = np.clip(np.round(src % 6 + rng.normal(0, 0.8, 600)), 0, 5) * scale + shift
    values = [None if gaps and k % 7 == 3 else float(v) for k, v in enumerate(y)]
    given = {"features": {"features": ["y"]}, "label": {"label": "y"}, "predict": {"columns": Columns(predict="y")}}[
        read
    ]
    return read_events({"src": src, "dst": dst, "t": np.arange(600), "y": values}, **given)


def fitted(log, **more):
    return fit(PINT(dim=8), log, predict="y", epochs=1, progress=False, **more)


@pytest.mark.parametrize("read", ["features", "label", "predict"])
@pytest.mark.parametrize(("shift", "scale"), [(1e8, 1.0), (1e9, 1.0), (1e9, 0.1), (1.7e9, 100.0)])
def test_moving_and_scaling_a_target_moves_and_scales_answers(shift, scale, read, tmp_path):
    plain, moved = (fitted(shifted(*by, read), folder=tmp_path / str(by[0])) for by in ((0.0, 1.0), (shift, scale)))
    rows = [(plain.test, moved.test), *((plain.heuristics[name], moved.heuristics[name]) for name in plain.heuristics)]
    for one, other in rows:
        assert other["all"]["r2"] == pytest.approx(one["all"]["r2"], abs=1e-4)
        assert other["all"]["rmse"] == pytest.approx(one["all"]["rmse"] * scale, rel=1e-4)
        assert other["all"]["coverage"] == pytest.approx(one["all"]["coverage"], abs=0.02)
    one, other = (pintgn.open(run) for run in (plain, moved))
    events = [(k % 12, (k + 1) % 12, 700 + k, k % 6) for k in range(30)]
    one.observe([(*event[:3], {"y": event[3]}) for event in events])
    other.observe([(*event[:3], {"y": event[3] * scale + shift}) for event in events])
    asked = (np.array(live.ask([1, 2], [3, 4], at=800)["y"]) for live in (one, other))
    assert next(asked) * scale + shift == pytest.approx(next(asked), rel=0, abs=1e-3 * scale)
    again = Run.open(tmp_path / str(shift))
    assert again.log == moved.log


def test_a_target_that_arrives_by_itself_is_kept_in_full():
    one, other = (pintgn.open(fitted(shifted(shift))) for shift in (0.0, 1e9))
    answers = []
    for live, shift in ((one, 0.0), (other, 1e9)):
        live.observe([(1, 2, 700, {})])
        live.observe_targets([(1, 2, 700, 5 + shift)])
        live.observe([(3, 4, 701, {})])
        assert live.task.truth_of(live.stream.history.late.values[600:601])[0] == pytest.approx(5 + shift, abs=1e-5)
        answers.append(np.array(live.ask([1], [2], at=702)["y"]) - shift)
    assert answers[0] == pytest.approx(answers[1], abs=1e-3)


def test_a_missing_target_is_no_question_in_python_as_on_the_command_line():
    log = shifted(0.0, read="predict", gaps=True)
    run = fitted(log)
    assert run.test["all"]["events"] == sum(k % 7 != 3 for k in range(510, 600))
    with pytest.raises(BadInput, match=r"predict='y'"):
        shifted(0.0, gaps=True)


# -- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [20, 50, 400])
@pytest.mark.parametrize("kind", ["continuous", "whole numbers", "the same interval for all"])
def test_intervals_hold_what_split_conformal_promises(few, kind):
    rng, held, above = np.random.default_rng(3), [], []
    for _ in range(400):
        middle = rng.normal(size=few + 1000)
        y = middle + rng.normal(size=few + 1000)
        if kind != "continuous":
            y = np.round(4 * y)
            middle = 4 * middle if kind == "whole numbers" else 0 * middle
        missed = np.maximum(middle - 1 - y, y - middle - 1)
        widen = conformal(missed[:few], 0.9)
        held.append((missed[few:] <= widen).mean())
        above.append((missed[few:] < widen).mean())  # without those exactly at the end
    assert np.mean(held) > 0.9 - 0.004
    assert np.mean(above) < 0.9 + 1 / (few + 1) + 0.004
    if kind != "the same interval for all":  # where many miss by the same, no interval of this form is nearer
        assert np.mean(held) < 0.9 + 1 / (few + 1) + 0.004


def test_what_the_epoch_was_chosen_by_is_shown():
    run = fitted(shifted(0.0))
    assert [entry["chosen_by"] for entry in run.history] == ["rmse"]
    assert "val RMSE" in epoch_line(run.history[0], 1)
    assert "by RMSE" in run_title(run)
