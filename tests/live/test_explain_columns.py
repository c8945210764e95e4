"""Explanations of answers about columns are true: "without" is what a replay gives, and the future says nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import pintgn
from pintgn.errors import BadInput
from pintgn.explain.counterfactuals import Absence, Frozen, answers
from pintgn.explain.known_facts import target_drafts
from pintgn.learn import fit as fitting
from pintgn.learn.settings import Settings
from pintgn.live.questions import question_about
from pintgn.models.history_view import Events
from tests.learn.helpers import tiny
from tests.learn.test_tasks import FRAUD, TIP, payments
from tests.test_explain import command

pytestmark = pytest.mark.learning

CASES = [
    ("pint", FRAUD), ("pint", TIP), ("pint", FRAUD | {"known_after": 60}), ("boosted", TIP), ("tgat", FRAUD),
    ("pint", {"predict": "fraud", "of": "src"}), ("pint", {"predict": "meet", "within": 100}),
]  # fmt: skip


def asked(name="pint", **task) -> Settings:
    """Small, and without memory where a model can do without."""
    given = tiny(name, hidden=0.0)
    if name == "pint":
        given["model"]["memory"] = 0
    return Settings.of(given | {"task": task})


@pytest.fixture(scope="module")
def log():
    return payments()


def question(live, log):
    """A question about the newest pair, right after the log."""
    task, last = live.run.settings.task, len(log) - 1
    given = {"amount": 30.0} | ({"channel": "web"} if "channel" in task.given else {})
    src, dst = int(log.src[last]), int(log.dst[last])
    given = {name: given[name] for name in task.given}
    return src, src if len(task.sides) == 1 else dst, live.time_of(), given


def replayed(run, log, asked, absence) -> np.ndarray:
    """The answer of a stream to which only the rest happened."""
    whole, late = run.view(log), run.schema.late
    columns = whole.features[:, late].copy() if late.stop > late.start else None
    features = None if whole.marked_features is None else whole.marked_features.copy()
    if len(absence.unknown):
        columns[absence.unknown] = 0
        features[absence.unknown, late] = 0
    keep = np.setdiff1d(np.arange(len(log)), absence.events)
    events = Events(whole.src, whole.dst, whole.t, features, late=columns, known=whole.known)
    stream = run.new_stream()
    stream.history.node_marks = log.ids.marks
    with torch.no_grad():
        stream.observe(events[keep])
        return stream.replay(None, [asked])[0].numpy(force=True).ravel()


@pytest.mark.parametrize(("name", "task"), CASES)
def test_the_answer_without_is_that_of_a_replay_without(name, task, log):
    run = fitting.fit(asked(name, **task), log)
    live = pintgn.open(run)
    src, dst, at, given = question(live, log)
    about = question_about(live, src, dst, at, given)
    frozen = Frozen.of(live.stream, at)
    touching = np.flatnonzero((log.src == src) | (log.dst == dst))
    gone = [touching[-1:], touching[::2], np.arange(0, len(log), 3)]
    absences = [Absence(some, np.unique([log.src[some], log.dst[some]])) for some in gone]
    absences += [absence for _, absence in target_drafts(frozen, src, dst, at, about, int)]
    assert (len(absences) > 3) == (run.schema.asking.late > 0)
    found = answers(frozen, about.query, absences)
    for row, absence in zip(found[1:], absences, strict=True):
        assert row == pytest.approx(replayed(run, log, about.query, absence), abs=2e-4)
    assert found[0] == pytest.approx(replayed(run, log, about.query, Absence(gone[0][:0], gone[0][:0])), abs=1e-5)
    assert any(not np.allclose(row, found[0]) for row in found[1:])


@pytest.mark.parametrize("task", [FRAUD | {"known_after": 60}, TIP])
def test_what_is_not_known_yet_is_no_reason(task, log):
    """The answer, every reason and every "without" stay when all that is unknown at the time is something else."""
    run = fitting.fit(asked(**task), log)
    at, src, dst = int(log.t[-1]) + 1, int(log.src[-1]), int(log.dst[-1])
    given = {name: {"amount": 30.0, "channel": "web"}[name] for name in run.settings.task.given}
    told = []
    for scrambled in (False, True):
        live = pintgn.open(run)
        late = live.stream.history.late
        unknown = np.flatnonzero(late.known[: len(log)] >= at)
        assert (len(unknown) > 0) == ("known_after" in task)
        if scrambled:
            late.values[unknown, :-1] = 1 - late.values[unknown, :-1]
        told.append(live.explain(live.names.ids[src], live.names.ids[dst], at, given=given).as_dict())
    assert told[0] == told[1]


def test_three_sentences_say_what_the_answer_rests_on(log):
    live = pintgn.open(fitting.fit(asked(**FRAUD), log))
    given = {"amount": 5.0, "channel": "web"}
    found = live.explain(log.id(3), log.id(int(log.dst[-1])), given=given)
    assert found.said.startswith("fraud=True with probability")
    assert found.answer["fraud"] in (True, False)
    assert len(found.sentences) == 3
    kinds = {reason.kind for reason in found.reasons}
    assert {"given", "known"} <= kinds
    texts = [reason.text for reason in found.reasons]
    assert "amount is 5.0" in texts
    assert any(text.startswith("as dst, ") and "had fraud=True in" in text and "known" in text for text in texts)
    assert json.dumps(found.as_dict())
    assert "logit without" in found.details()
    assert list(found.to_pandas())[:4] == ["reason", "adds", "logit_without", "probability_without"]


def test_values_are_told_in_their_own_unit(log):
    live = pintgn.open(fitting.fit(asked(**TIP), log))
    found = live.explain(log.id(0), log.id(int(log.dst[0])), given={"amount": 5.0})
    assert found.measure == "tip"
    assert found.logit is None
    assert found.said.startswith("tip ")
    assert "nine of ten between" in found.said
    assert all(reason.without.value is not None for reason in found.by_effect)
    assert "tip without" in found.details()


def test_a_node_is_explained_alone(log):
    live = pintgn.open(fitting.fit(asked(predict="fraud", of="src"), log))
    found = live.explain(log.id(int(log.src[0])))
    assert found.dst is None
    assert found.src == log.id(int(log.src[0]))
    assert "contacts, the last" in found.summary[0]
    pairs = pintgn.open(fitting.fit(asked(**TIP), log))
    with pytest.raises(BadInput, match="a src and a dst. Name both"):
        pairs.explain(log.id(0), given={"amount": 1.0})


def test_the_command_explains_a_column(tmp_path, log, monkeypatch, capsys):
    pintgn.fit("boosted", log, folder=tmp_path / "run", hidden=0.0, progress=False, **FRAUD)
    ends = log.id(int(log.src[0])), log.id(int(log.dst[0]))
    said = "explain", tmp_path / "run", *ends, "--given", "amount=5", "--given", "channel=web"
    code, out, _ = command(monkeypatch, capsys, *said)
    assert code == 0
    assert "fraud=True with probability" in out
    assert "  3. " in out
    code, out, _ = command(monkeypatch, capsys, *said, "--json")
    assert json.loads(out)["said"].startswith("fraud=True")
    code, _, err = command(monkeypatch, capsys, *said[:4])
    assert code == 2
    assert "this run is told amount, channel with every question" in err
    for wrong, words in (("amount=much", "amount is a number"), ("amount", "NAME=VALUE"), ("amuont=1", "'amount'")):
        code, _, err = command(monkeypatch, capsys, *said, "--given", wrong)
        assert code == 2
        assert words in err
        assert err.count("\n") == 1


def test_a_column_without_any_value_cannot_be_predicted(tmp_path, monkeypatch, capsys):
    rows = "\n".join(f"a{k % 5},b{k % 3},{k},," for k in range(60))
    (tmp_path / "log.csv").write_text(f"src,dst,t,fraud,note\n{rows}\n")
    said = "train", tmp_path / "log.csv", "--predict", "fraud", "-o", tmp_path / "empty"
    code, _, err = command(monkeypatch, capsys, *said)
    assert code == 2
    assert "no event of the training part has a value of 'fraud'" in err.splitlines()[-1]
