"""Explanations by relation are true: "without" is what a replay gives, and the future says nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import pintgn
from pintgn.errors import BadInput, UnknownName
from pintgn.explain.counterfactuals import Absence, Frozen, answers
from pintgn.explain.known_facts import relation_drafts
from pintgn.learn import fit as fitting
from pintgn.live.questions import question_about
from pintgn.models.history_view import Events
from tests.learn.test_relations import asked, facts
from tests.test_explain import command

pytestmark = pytest.mark.learning

ALL = {"neighbors": 300}  # which of simultaneous contacts are the newest depends on their relations, too
MODELS = {"pint": ALL | {"pair_history": True}, "tgat": ALL, "gat": ALL, "boosted": {}}


@pytest.fixture(scope="module")
def log():
    return facts(300, later="lends")


@pytest.fixture(scope="module")
def live(log):
    return pintgn.open(fitting.fit(asked(model=MODELS["pint"]), log))


def replayed(run, log, asked, absence) -> np.ndarray:
    """The answer of a stream to which only the rest happened, the unknown by no relation."""
    whole = run.view(log)
    features = whole.marked_features.copy()
    features[absence.unknown, run.schema.relation[0]] = 0
    keep = np.setdiff1d(np.arange(len(log)), absence.events)
    stream = run.new_stream()
    stream.history.node_marks = log.ids.marks
    with torch.no_grad():
        stream.observe(Events(whole.src, whole.dst, whole.t, features)[keep])
        return stream.replay(None, [asked])[0].numpy(force=True).ravel()


@pytest.mark.parametrize("relation", ["likes", "^likes"])
@pytest.mark.parametrize("name", MODELS)
def test_the_answer_without_is_that_of_a_replay_without(name, relation, log):
    live = pintgn.open(fitting.fit(asked(name, model=MODELS[name]), log))
    forth = np.flatnonzero(live.run.view(log).features[:, -1] == live.task.number("likes"))[-1]
    src, dst = (int(ends[forth]) for ends in (log.src, log.dst))
    src, dst = (dst, src) if relation.startswith("^") else (src, dst)
    at = live.time_of()
    about, frozen = question_about(live, src, dst, at, None, relation), Frozen.of(live.stream, at)
    touching = np.flatnonzero((log.src == src) | (log.dst == dst))
    gone = [touching[-1:], touching[::2], np.arange(0, len(log), 3)]
    absences = [Absence(some, np.unique([log.src[some], log.dst[some]])) for some in gone]
    known = relation_drafts(frozen, src, dst, at, about, int)
    assert [reason.of for reason, _ in known] == ["pair", "src", "dst"]
    absences += [absence for _, absence in known]
    found = answers(frozen, about.query, absences)
    for row, absence in zip(found[1:], absences, strict=True):
        assert row == pytest.approx(replayed(live.run, log, about.query, absence), abs=2e-4)
    assert found[0] == pytest.approx(replayed(live.run, log, about.query, Absence(gone[0][:0], gone[0][:0])), abs=1e-5)
    assert any(not np.allclose(row, found[0]) for row in found[1:])


def test_the_answer_is_the_score_and_reasons_name_relations(live, log):
    row = int(np.flatnonzero(log.src != log.dst)[-1])
    src, dst = log.id(int(log.src[row])), log.id(int(log.dst[row]))
    for relation, inverse in (("likes", "^likes"), ("^owns", "owns")):
        found = live.explain(src, dst, relation=relation)
        assert found.logit == pytest.approx(live.score(src, [dst], relation=relation)[dst], abs=1e-5)
        assert found.relation == relation
        assert f"{src} and {dst} by {relation} at " in str(found)
        assert len(found.sentences) == 3
        known = {reason.of: reason.text for reason in found.reasons if reason.kind == "known"}
        begin = {"pair": f"by {relation}, {src} met {dst} ", "src": f"by {relation}, {src} met "}
        begin["dst"] = f"by {inverse}, {dst} met "
        assert known
        assert all(text.startswith(begin[of]) for of, text in known.items())
        told = [reason for reason in (*found.reasons, *found.neighbors) if reason.kind != "known"]
        assert told
        assert all(contact.relation for reason in told for contact in reason.contacts)
        assert all(" by " in reason.text for reason in told)
        assert json.dumps(found.as_dict())
        assert "their relation" in found.note


def test_a_relation_seen_from_its_destination_is_the_inverse(live):
    live = pintgn.open(live.run)
    live.observe([(3, 1, 200, {"type": "owns"})])
    forth, back = live.explain(3, 1, relation="owns"), live.explain(1, 3, relation="^owns")
    assert forth.reasons[-1].kind != "known"
    newest = [next(one for one in found.reasons if one.kind == "contact") for found in (forth, back)]
    assert [one.contacts[0].relation for one in newest] == ["owns", "^owns"]
    assert newest[0].text.startswith("3 met 1 by owns at 200")


def test_what_comes_later_is_no_reason(live, log):
    """Events at the time that is asked about, and what they are, change nothing."""
    told = []
    for word in ("likes", "owns"):
        other = pintgn.open(live.run)
        at = int(log.t[-1]) + 5
        other.observe([(3, 1, at, {"type": word}), (1, 5, at, {"type": word})])
        told.append(other.explain(3, 1, at, relation="likes").as_dict())
    told.append(live.explain(3, 1, at, relation="likes").as_dict())
    assert told[0] == told[1] == told[2]


def test_a_relation_that_training_never_met_is_answered_without_knowing_it(live):
    found = live.explain(3, 1, relation="lends")
    assert found.relation == "an unknown relation"
    assert not [reason for reason in found.reasons if reason.kind == "known"]


def test_what_is_wrong_is_said(live):
    for wrong, error, words in (
        ({}, BadInput, "this run asks by 'type'"),
        ({"relation": "lieks"}, UnknownName, "there is no type 'lieks'"),
        ({"relation": "likes", "given": {"type": "likes"}}, BadInput, "nothing is given"),
    ):
        with pytest.raises(error, match=words):
            live.explain(3, 1, **wrong)
    links = pintgn.open(pintgn.fit("edgebank", pintgn.simulate("shop", events=200, seed=0)))
    with pytest.raises(BadInput, match="this run knows no relations"):
        links.explain("user1", "item1", relation="likes")


def test_the_command_explains_by_relation(tmp_path, log, monkeypatch, capsys):
    pintgn.fit(asked("boosted"), log, folder=tmp_path / "run", progress=False)
    said = "explain", tmp_path / "run", 3, 1
    code, out, _ = command(monkeypatch, capsys, *said, "--relation", "^likes")
    assert code == 0
    assert "3 and 1 by ^likes at " in out
    assert "  3. " in out
    code, out, _ = command(monkeypatch, capsys, *said, "--relation", "likes", "--json")
    assert json.loads(out)["relation"] == "likes"
    for wrong, words in (((), "this run asks by 'type'"), (("--relation", "lieks"), "Did you mean 'likes'")):
        code, _, err = command(monkeypatch, capsys, *said, *wrong)
        assert code == 2
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("column", ["s", "o", "t"])
def test_an_end_or_the_time_of_events_is_no_relation(log, column):
    with pytest.raises(BadInput, match=f"'{column}' is the .* of every event, not a relation"):
        pintgn.fit("pint", log, relation=column, progress=False)
