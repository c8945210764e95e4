"""No answer knows what happens at its time or later: through `evaluate`, `predict`, `recommend` and a live run, for
every kind of question.

Everything at and after a time T is others: times, ends, features, targets, and targets of earlier events that are not
known by T. Whatever is asked about T or earlier is the same, bit for bit.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

import pintgn
from pintgn import EventLog, evaluate
from pintgn.errors import BadInput, StaleQuery
from pintgn.learn import fit as fitting
from pintgn.learn import tasks
from pintgn.learn.run import Run
from pintgn.learn.settings import QUESTIONS, Settings
from pintgn.learn.tasks.column import Column
from pintgn.learn.tasks.task import Task
from pintgn.live import recommend as recommending
from pintgn.live.live import Live
from pintgn.live.snapshot import Snapshot, restore
from pintgn.stream import Stream
from tests.learn.helpers import tiny

DELAY = 10
KINDS = {
    "link": {},
    "relation": {"relation": "kind"},
    "class": {"predict": "kind", "given": ["amount"]},
    "class, known later": {"predict": "kind", "known_after": DELAY},
    "number": {"predict": "amount", "given": ["kind"]},
    "number, known later": {"predict": "amount", "known_after": DELAY},
    "number of a node": {"predict": "amount", "of": "src"},
    "return": {"predict": "return", "within": 10},
    "meet": {"predict": "meet", "within": 10},
}
NO_KINDS = {Column}  # of which kinds are made
EVENTS, NODES, WORDS = 400, 14, ("buy", "look", "sell")
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_kind_of_question_is_asked_here():
    """A new kind is added to `KINDS` above: it is a class of `learn.tasks`, or a word in place of a column's name."""
    for module in pkgutil.iter_modules(tasks.__path__):
        importlib.import_module(f"pintgn.learn.tasks.{module.name}")
    made, found = {type(trained(kind).task) for kind in KINDS}, [Task]
    for one in found:
        found += one.__subclasses__()
    there = {one for one in found[1:] if one.__module__.startswith("pintgn.")}
    assert made == there - NO_KINDS
    ours = {name for name, task in QUESTIONS.items() if isinstance(task, str)}  # a page of the docs adds its own
    assert {task.get("predict", "link") for task in KINDS.values()} == {*ours, "kind", "amount"}


def rows_of(seed: int, events: int, begin: int = 0) -> dict[str, np.ndarray]:
    """Columns of random events with ties, repeats and self-loops."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, NODES, events)
    dst = np.where(rng.random(events) < 0.6, (src * 3 + 1) % NODES, rng.integers(0, NODES, events))
    t = begin + np.sort(rng.integers(0, events // 2, events))
    kind = np.array(WORDS)[np.where(rng.random(events) < 0.7, src % 3, rng.integers(0, 3, events))]
    return {"src": src, "dst": dst, "t": t, "amount": rng.normal(10 + src, 1), "kind": kind}


def joined(*parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def other_from(columns: dict[str, np.ndarray], first: int, seed: int) -> dict[str, np.ndarray]:
    """The same strictly before the time of an event, and nothing alike from there on; nor what is not known by then."""
    begin = int(np.searchsorted(columns["t"], columns["t"][first], "left"))
    at, later = columns["t"][begin], rows_of(seed, len(columns["t"]) - begin)
    later["t"] = at + np.r_[0, 0, np.cumsum(np.random.default_rng(seed).integers(1, 50, len(later["t"]) - 2))]
    later["amount"] = 1_000 - 5 * later["amount"]
    return joined({name: column[:begin] for name, column in columns.items()}, later)


def unknown_others(columns: dict[str, np.ndarray], at: int, task: dict) -> dict[str, np.ndarray]:
    """With other targets where these are not known strictly before a time."""
    name = task.get("predict")
    if name not in ("kind", "amount"):
        return columns
    unknown = columns["t"] + task.get("known_after", 0) >= at
    rng, values = np.random.default_rng(7), columns[name].copy()
    values[unknown] = (
        rng.permutation(WORDS * len(values))[: unknown.sum()] if name == "kind" else rng.normal(size=unknown.sum())
    )
    return columns | {name: values}


def with_newcomers(columns: dict[str, np.ndarray], at: int) -> dict[str, np.ndarray]:
    """Some destinations from a time on, those of its own events among them, are nodes that nobody has met before."""
    new = (columns["t"] >= at) & ((columns["dst"] % 3 == 0) | (columns["t"] == at))
    return columns | {"dst": np.where(new, columns["dst"] + NODES, columns["dst"])}


def log_of(columns: dict[str, np.ndarray]) -> EventLog:
    given = {name: column.tolist() for name, column in columns.items()}
    return pintgn.read_events(given, features=["amount", "kind"], columns=pintgn.Columns(categorical=["kind"]))


def settings_of(kind: str) -> Settings:
    """A model that knows all there is: positions, memory, the history of pairs, contacts for longer than `DELAY`."""
    given = tiny("pint", hidden=0.0)
    given["model"] |= {"memory": 8, "pair_history": True, "neighbors": 12}
    # memory is refreshed after every group, so also at the clock, where no question may see it
    return Settings.of(given | {"task": KINDS[kind], "stream": {"memory_block": 1}})


@cache
def trained(kind: str) -> Run:
    return fitting.fit(settings_of(kind), log_of(rows_of(1, EVENTS)))


@every_kind
def test_what_evaluate_finds_before_t_does_not_depend_on_what_follows(kind):
    """T is where the test part begins: trained and measured on validation, all is the same; the test part is not."""
    columns, task = rows_of(1, EVENTS), KINDS[kind]
    first = trained(kind).parts.test.first
    at = columns["t"][first]
    other = with_newcomers(unknown_others(other_from(columns, first, seed=5), at, task), at)
    runs = trained(kind), fitting.fit(settings_of(kind), log_of(other))
    links = trained(kind).settings.task.scores_links and "relation" not in task
    how = {"negatives": ["random", "historical", "inductive"], "rank": "all"} if links else {}
    one, two = (evaluate(run, part="val", **how).to_dict() for run in runs)
    assert one == two
    assert runs[0].test != runs[1].test, "else nothing was scrambled"


def later_rows(task: dict, scramble: bool) -> tuple[dict[str, np.ndarray], int]:
    """Events after the log, and T, the time of several of them; from there on they are others, if that is asked."""
    columns = rows_of(2, 120, begin=EVENTS)
    at = int(columns["t"][70])
    other = with_newcomers(unknown_others(other_from(columns, 70, seed=6), at, task), at)
    return (other if scramble else columns), at


def observed(kind: str, columns: dict[str, np.ndarray], **options) -> Live:
    live = Live(trained(kind), trained(kind).deployed.stream.fork(), **options)
    live.observe(events_of(columns))
    return live


def events_of(columns: dict[str, np.ndarray]) -> list[tuple]:
    listed = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [(src, dst, t, {"amount": amount, "kind": kind}) for src, dst, t, amount, kind in listed]


def until(columns: dict[str, np.ndarray], at: int) -> dict[str, np.ndarray]:
    return {name: column[columns["t"] <= at] for name, column in columns.items()}


def lives_at(kind: str) -> tuple[list[Live], int]:
    """Runs that have observed the same before T, and others at T, which a question about T does not see."""
    task = KINDS[kind]
    (one, at), (two, _) = (later_rows(task, scramble) for scramble in (False, True))
    before = {name: column[one["t"] < at] for name, column in one.items()}
    found = [observed(kind, columns) for columns in (before, until(one, at), until(two, at))]
    assert [live.clock for live in found] == [before["t"][-1], at, at]
    return found, at


@every_kind
def test_what_predict_says_about_t_does_not_depend_on_events_at_t(kind):
    lives, at = lives_at(kind)
    asked = rows_of(3, 60)
    pairs = {name: asked[name].tolist() for name in ("src", "dst", "amount", "kind")}
    answers = [live.predict(pairs, at=at) for live in lives]
    assert answers[0].num_rows == 60
    assert answers[0].equals(answers[1])
    assert answers[0].equals(answers[2])
    later = [live.predict(pairs, at=at + 1) for live in lives]
    assert not later[1].equals(later[2]), "else nothing was scrambled"
    pairs["dst"][:5] = [NODES + 1] * 5  # whom only the events at T may have met
    answers = [live.predict(pairs, at=at).drop(["notes"]) for live in lives]
    assert answers[0].equals(answers[1])
    assert answers[0].equals(answers[2])
    with pytest.raises(StaleQuery):
        lives[1].predict(pairs, at=at - 1)


@every_kind
def test_what_recommend_says_about_t_does_not_depend_on_events_at_t(kind, tmp_path):
    """Nor who is recommended, and to whom: some are met for the first time at T."""
    lives, at = lives_at(kind)
    Snapshot.of(lives[2]).write(tmp_path)
    lives.append(restore(trained(kind), tmp_path))
    relation = {"relation": "buy"} if kind == "relation" else {}
    if not trained(kind).settings.task.scores_links:
        with pytest.raises(BadInput):
            lives[0].recommend(3, at=at)
        return
    asked = [{}, {"exact": False, "k": 2}, {"active_since": at - 3}, {"exclude_met": True}]
    asked += [{"relation": "^buy"}] if relation else []
    for one in asked:
        with patch.object(recommending, "CANDIDATES", 8):  # two of them are popular ones
            tables = [live.recommend_many("all", **{"k": 30, "at": at, **relation, **one}) for live in lives]
        assert tables[0].num_rows >= NODES
        for table in tables[1:]:
            assert table.equals(tables[0])
    assert (
        not lives[1]
        .recommend_many("all", at=at + 1, **relation)
        .equals(lives[2].recommend_many("all", at=at + 1, **relation))
    ), "else nothing was scrambled"


@every_kind
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_live_run_answers_before_t_the_same_whatever_comes_behind_in_the_batch(kind, pieces):
    """It answers about every event just before it happens; with that come those at T and later, in the same batch."""
    task, answers, advance = KINDS[kind], [], Stream.advance
    for scramble in (False, True):
        columns, at = later_rows(task, scramble)
        said: list[np.ndarray] = []

        def record(self, events, query, said=said, at=at):
            if not len(query):  # questions about time are not asked by itself
                query = trained(kind).task.asked(events.src, events.dst, events.t, None)
            found = advance(self, events, query)
            rows = np.column_stack([query.src, query.dst, query.t, found.numpy().reshape(len(query), -1)])
            said.append(rows[query.t < at])
            return found

        with patch.object(Stream, "advance", record):
            live = Live(trained(kind), trained(kind).deployed.stream.fork(), evaluate_every=1)
            events = events_of(columns)
            for piece in range(pieces):
                live.observe(events[piece * len(events) // pieces : (piece + 1) * len(events) // pieces])
        answers.append(np.concatenate(said))
    assert len(answers[0]) >= 60
    assert np.array_equal(*answers)
