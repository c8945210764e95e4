"""Who meets whom by a relation: questions, ranks, the recurrency baseline, and that no answer knows the future."""

import dataclasses

import numpy as np
import pytest
import torch

import pintgn
from pintgn.check import check_model
from pintgn.errors import BadInput, UnknownName
from pintgn.events.log import EventLog, Query
from pintgn.learn import fit as fitting
from pintgn.learn import relation_ranks
from pintgn.learn.relation_ranks import both_directions, entities, filtered_ranks
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.tasks import relation as task_module
from pintgn.learn.tasks.relation import EarlierAnswers
from pintgn.models.base import eval_mode
from pintgn.models.recurrency import Recurrency

WORDS = ("likes", "owns", "knows", "sells")
MODELS = ("pint", "tgn", "tgat", "gat", "graphsage", "jodie")


def facts(events=400, nodes=12, seed=0, later=None):
    """Facts at few times, so that many are simultaneous; `later` is a relation that occurs in the last fifth only."""
    rng = np.random.default_rng(seed)
    t, src, kind = np.sort(rng.integers(0, 40, events)), rng.integers(0, nodes, events), rng.integers(0, 3, events)
    dst = np.where(rng.random(events) < 0.8, (src * (kind + 2) + kind) % nodes, rng.integers(0, nodes, events))
    types = [WORDS[k] for k in kind]
    if later:
        types = [later if row >= 4 * events // 5 and row % 3 == 0 else one for row, one in enumerate(types)]
    return pintgn.read_events({"s": src, "o": dst, "t": t, "type": types}, "s", "o", "t", features=["type"])


def asked(name="pint", **more):
    small = {"dim": 8} if name != "boosted" else {}
    return Settings.of({
        "model": {"name": name} | small | more.pop("model", {}),
        "train": {"epochs": 1, "hidden": 0.0, "threads": 1} | more,
        "task": {"relation": "type"},
    })  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return fitting.fit(asked(model={"pair_history": True}, epochs=2), facts())


def after(run, log, events):
    stream = run.new_stream()
    stream.observe(log[:events])
    stream.model.eval()
    return stream


# -- the question ------------------------------------------------------------------------------------------------------


def test_a_question_names_its_relation_and_the_inverse_one(run):
    log = run.parts.log
    query, kinds = both_directions(log[:5]), run.task.kinds
    assert kinds == 4  # three relations, and none of them
    assert (query.src[:5] == log.src[:5]).all()
    assert (query.src[5:] == log.dst[:5]).all()
    assert (query.given[5:] == query.given[:5] + kinds).all()
    assert (log[:5].query.given == query.given[:5]).all()
    assert run.task.number("likes") > 0
    assert run.task.number("^likes") == run.task.number("likes") + kinds


def test_the_answer_depends_on_the_relation(run):
    stream = after(run, run.parts.log, 300)
    pairs = np.repeat(np.arange(6), 3), np.repeat(np.arange(6)[::-1], 3)
    query = Query(*pairs, np.full(18, 50), np.tile([[1.0], [2.0], [3.0]], (6, 1)).astype(np.float32))
    with torch.no_grad():
        assert stream.score(query).view(6, 3).std(1).min() > 0
        with pytest.raises(BadInput, match="brings 0 given columns"):
            stream.score(dataclasses.replace(query, given=None))


def test_an_event_is_its_inverse_from_the_other_end(run):
    stream, log = after(run, run.parts.log, 100), run.parts.log
    row = int(np.flatnonzero(log.src[:100] != log.dst[:100])[-1])
    view = stream._view(np.array([50]), np.array([100]))
    column, kinds = run.schema.relation
    for node, added in ((log.src[row], 0), (log.dst[row], kinds)):
        found, where = view.distinct_features(np.array([[row]]), np.array([[True]]), np.array([0]), np.array([node]))
        assert found[where.ravel()[0], column] == log.features[row, column] + added


@pytest.mark.parametrize("positions", [0, 3])
def test_ranking_equals_scoring_pair_by_pair(positions):
    log = facts()
    run = Run(settings := asked(model={"positions": positions, "pair_history": True}), 0, log, settings.make_model())
    stream = after(run, run.parts.log, 300)
    query = both_directions(run.parts.log[300:310])
    among = np.broadcast_to(np.arange(12), (len(query), 12))
    many = np.repeat(np.arange(len(query)), 12)
    with torch.no_grad():
        ranked = stream.rank(None, query, among)
        alone = stream.score(query[many].toward(among.ravel())).view(ranked.shape)
    assert torch.allclose(ranked, alone, atol=1e-5)


# -- nothing of the future ---------------------------------------------------------------------------------------------


def scrambled(log, begin, seed=3):
    """Everything from an event on with other ends and other relations."""
    rng = np.random.default_rng(seed)
    src, dst, features = log.src.copy(), log.dst.copy(), log.features.copy()
    order = begin + rng.permutation(len(log) - begin)
    src[begin:], features[begin:] = log.src[order], log.features[order][::-1]
    dst[begin:] = log.dst[begin + rng.permutation(len(log) - begin)]
    return EventLog(src, dst, log.t, features=features, ids=log.ids, schema=log.schema)


@pytest.mark.parametrize("name", [*MODELS, "boosted", "recurrency"])
def test_no_answer_knows_what_happens_at_its_time_or_later(name):
    log = facts(260)
    run = Run(settings := asked("pint" if name == "recurrency" else name), 0, log, settings.make_model())
    parts, model = run.parts, Recurrency() if name == "recurrency" else run.model
    model.prepare(parts.trained)
    begin = int(np.searchsorted(log.t, log.t[200], "left"))
    query = both_directions(parts.log)[np.r_[begin : begin + 3, len(log) + begin : len(log) + begin + 3]]
    answers = []
    for read in (parts.log, scrambled(parts.log, begin)):
        stream = pintgn.Stream(model, run.schema)
        with eval_mode(model):
            stream.observe(read[: begin - 5])
            answers.append(stream.replay(read[begin - 5 :], [query])[0])  # what comes is appended before it is asked
    assert torch.equal(*answers)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_no_rank_depends_on_batches(run, size, monkeypatch):
    parts = run.parts
    monkeypatch.setattr(relation_ranks, "PAIRS", size * 12)
    monkeypatch.setattr(relation_ranks, "ANSWERS", size)
    found = filtered_ranks(after(run, parts.log, parts.test.first), parts.test, entities(parts.log))
    monkeypatch.undo()
    assert (found == filtered_ranks(after(run, parts.log, parts.test.first), parts.test, entities(parts.log))).all()


def test_the_order_of_simultaneous_facts_changes_no_rank(run):
    parts, rng = run.parts, np.random.default_rng(0)
    test = parts.test
    order = np.lexsort((rng.random(len(test)), test.t))
    other = EventLog(
        test.src[order], test.dst[order], test.t, features=test.features[order], ids=test.ids, schema=test.schema
    )
    pools = entities(parts.log)
    mine, theirs = (
        filtered_ranks(after(run, parts.log, test.first), part, pools)[0].reshape(2, -1) for part in (test, other)
    )
    assert np.allclose(mine[:, order], theirs)


@pytest.mark.parametrize("name", ["pint", "tgn"])
def test_models_keep_every_promise_with_a_relation(name):
    log = facts(60, 7)
    run = Run(settings := asked(name), 0, log, settings.make_model())
    assert len(check_model(run.model, run.view(log))) > 5


# -- ranks -------------------------------------------------------------------------------------------------------------


def slow_ranks(scores, part, pool):
    """Ranks one by one: `scores(u, relation, t)` gives a number for every node."""
    kinds, found = part.schema.relation[1], []
    code = part.query.given[:, 0]
    for back in (False, True):
        for row in range(len(part)):
            ends = (part.src, part.dst)[::-1] if back else (part.src, part.dst)
            u, v = ends[0][row], ends[1][row]
            given = scores(u, code[row] + kinds * back, part.t[row])
            same = (ends[0] == u) & (code == code[row]) & (part.t == part.t[row])
            others = [node for node in pool if node not in ends[1][same]]
            above, equal = sum(given[n] > given[v] for n in others), sum(given[n] == given[v] for n in others)
            found.append(1 + above + equal / 2)
    return np.array(found)


def test_ranks_are_filtered_by_what_is_true_at_the_same_time(run):
    part = run.parts.test

    def score(u, relation, t):
        return np.array([(u * 7 + int(relation) * 3 + int(t) * 5 + n * 11) % 6 for n in range(12)], float)

    def scored(query, among):
        rows = zip(query.src, query.given[:, 0], query.t, strict=True)
        return [np.stack([score(*one) for one in rows])]

    stream = after(run, run.parts.log, part.first)
    found = filtered_ranks(stream, part, (np.arange(12), np.arange(12)), scored)[0]
    assert (found == slow_ranks(score, part, range(12))).all()
    assert stream.clock == part.t[-1]


def test_some_events_are_ranked_as_they_would_be_among_all(run):
    part, pools = run.parts.test, entities(run.parts.log)
    every = filtered_ranks(after(run, run.parts.log, part.first), part, pools)[0]
    only = np.arange(len(part)) % 3 == 0
    some = filtered_ranks(after(run, run.parts.log, part.first), part, pools, only=only)[0]
    assert np.isnan(some[~np.tile(only, 2)]).all()
    assert (some[np.tile(only, 2)] == every[np.tile(only, 2)]).all()


def test_a_score_that_is_not_finite_is_refused(run):
    part = run.parts.test
    with pytest.raises(BadInput, match="not finite"):
        filtered_ranks(
            after(run, run.parts.log, part.first), part, entities(run.parts.log),
            lambda query, among: [np.full(among.shape, np.nan)],
        )  # fmt: skip


def test_sides_that_are_named_apart_answer_for_themselves():
    table = {"s": [1, 2, 1, 2], "o": [1, 2, 3, 1], "t": [1, 2, 3, 4], "type": ["a", "b", "a", "b"]}
    log = pintgn.read_events(table, "s", "o", "t", features=["type"], bipartite=True)
    forth, back = entities(log)
    assert len(forth) == 3
    assert len(back) == 2


# -- the baseline ------------------------------------------------------------------------------------------------------


def test_recurrency_is_the_share_and_the_age_of_what_happened():
    table = {"s": [0, 0, 1, 0], "o": [5, 5, 5, 6], "t": [0, 10, 20, 20], "type": ["a", "a", "a", "b"]}
    log = pintgn.read_events(table, "s", "o", "t", features=["type"])
    settings = asked()
    task = task_module.Related(settings.task, log, log)
    read = task.with_target(task.without_target(log), log)
    src, dst = ([log.node(id) for id in ids] for ids in ((0, 0, 1), (5, 6, 5)))
    query = Query(np.array(src), np.array(dst), np.full(3, 30), np.ones((3, 1), np.float32))
    expected = {
        # times are 10 apart: 2 steps and 1 step ago; of three facts by a, all end at 5
        "strict recurrency": [2.0**-2, 0, 2.0**-1],
        "relaxed recurrency": [1, 0, 1],
        "recurrency": [0.999 / 4 + 0.001, 0, 0.999 / 2 + 0.001],
    }
    for name, scores in expected.items():
        model = Recurrency(name)
        model.prepare(read)
        stream = pintgn.Stream(model, read.schema)
        stream.observe(read)
        assert np.allclose(stream.score(query).numpy(), scores)
    back = Query(query.dst, query.src, query.t, query.given + task.kinds)  # who went to 5 by a: 0 twice, 1 once
    assert np.allclose(stream.score(back).numpy()[[0, 2]], [0.999 / 4 + 0.001 * 2 / 3, 0.999 / 2 + 0.001 / 3])


def test_the_baseline_is_set_by_validation_alone(run):
    parts = run.parts
    stream = run.task.baseline_stream("recurrency", run, parts, run.schema, parts.before(parts.test))
    changed = dataclasses.replace(parts, test=scrambled(parts.test, 0))
    again = run.task.baseline_stream("recurrency", run, changed, run.schema, parts.before(parts.test))
    assert (stream.model.trust == again.model.trust).all()
    assert len(stream.model.trust) == 2 * run.task.kinds
    assert {*zip(stream.model.decay, stream.model.trust, strict=True)} <= {*task_module.GRID}


# -- training ----------------------------------------------------------------------------------------------------------


def test_negatives_are_earlier_answers_and_known_to_be_false(run):
    log = run.parts.trained
    drawn = EarlierAnswers(log)
    some = log[-60:]
    queries, chance = drawn.questions(some, 3, np.random.default_rng(0))
    assert len(queries) == 7
    truth, everything = queries[0], both_directions(log)
    columns = (everything.src, everything.given[:, 0], everything.dst, everything.t)
    held = {*zip(*(column.tolist() for column in columns), strict=True)}
    for k, query in enumerate(queries[1:], 1):
        for row in range(len(query)):
            u, r, v, t = query.src[row], query.given[row, 0], query.dst[row], query.t[row]
            assert np.isinf(chance[row, k]) == ((u, r, v, t) in held)
            before = {one[2] for one in held if one[:2] == (u, r) and one[3] < t}
            if k > 3 and before:
                assert v in before
            if np.isfinite(chance[row, k]):
                often = 3 / 12 + 3 * (v in before) / len(before) if before else 6 / 12
                assert np.isclose(np.exp(chance[row, k]), often, rtol=1e-5)
    assert np.isfinite(chance[:, 0]).all()
    assert (truth.t == np.tile(some.t, 2)).all()


@pytest.mark.parametrize("name", [*MODELS, "boosted"])
def test_every_tree_model_learns_by_relation(name):
    run = fitting.fit(asked(name), facts(150))
    assert list(run.test["all"]) == ["events", "mrr", "hits@1", "hits@3", "hits@10", "ap", "auc"]
    assert 0 < run.test["all"]["mrr"] <= 1
    assert list(run.heuristics) == ["recurrency", "strict recurrency", "relaxed recurrency"]


@pytest.mark.learning
def test_pint_learns_what_the_relation_says():
    log = facts(800)
    run = fitting.fit(asked(model={"pair_history": True, "dim": 32}, epochs=6, learning_rate=0.01), log)
    assert run.test["all"]["mrr"] > run.heuristics["relaxed recurrency"]["all"]["mrr"] + 0.1


def test_a_run_is_read_again_and_goes_on(tmp_path):
    log = facts(300)
    made = fitting.fit(asked(), log, folder=tmp_path / "run")
    read = Run.open(tmp_path / "run")
    query = Query(np.array([1, 2]), np.array([3, 4]), np.array([90, 90]), np.array([[1], [6]], np.float32))
    with eval_mode(made.model), eval_mode(read.stream.model):
        assert torch.equal(made.stream.score(query), read.stream.score(query))
        for stream in (made.stream, read.stream):
            stream.observe(made.parts.log[:0])
    assert read.test == made.test
    found = pintgn.evaluate(tmp_path / "run", baselines=["relaxed recurrency"])
    assert list(found.negatives) == ["who comes next by type, both ways, among all, filtered"]
    assert found.to_dict()["negatives"][read.task.title()]["pint"]["all"]["mrr"] == pytest.approx(
        read.test["all"]["mrr"]
    )


def test_forgetting_keeps_relations_with_their_events(run):
    stream = after(run, run.parts.log, 300)
    stream.forget(keep_last=3)
    held = stream.history.relations
    assert len(held.sources) == stream.events
    query = both_directions(run.parts.log[300:305])
    with torch.no_grad():
        assert torch.isfinite(stream.score(query)).all()


# -- what cannot be asked ----------------------------------------------------------------------------------------------


def test_a_relation_of_later_has_a_finite_score():
    log = facts(300, later="sells")
    run = fitting.fit(asked(), log)
    assert run.task.number("sells") == 0
    given = run.task.by("sells", 2)
    query = Query(np.array([1, 2]), np.array([3, 4]), np.array([90, 90]), given)
    assert torch.isfinite(run.stream.score(query)).all()


def test_a_relation_that_is_not_there_is_refused(run):
    with pytest.raises(UnknownName, match=r"there is no type 'lykes'. Did you mean 'likes'\? There are: knows, likes"):
        run.task.by("lykes", 1)
    with pytest.raises(BadInput, match=r"this run asks by 'type': say which, with relation= \(--relation\)"):
        run.task.by(None, 1)
    with pytest.raises(BadInput, match="2 relations for 3 questions"):
        run.task.by(["likes", "owns"], 3)
    with pytest.raises(BadInput, match="knows no relations"):
        Run(chosen := Settings.of({"model": {"name": "edgebank"}}), 0, facts(), chosen.make_model()).task.by("x", 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"relation": "kind"}, "there is no column 'kind' of relations"),
        ({"relation": "type", "predict": "type"}, "give one of them. Which type comes next is predict='type'"),
        ({"relation": "type", "given": ["type"]}, "task.given does not go with task.relation"),
    ],
)
def test_questions_that_make_no_sense_are_refused(given, said):
    with pytest.raises(BadInput, match=said):
        pintgn.fit("pint", facts(), progress=False, **given)


def test_models_that_know_no_relations_say_so():
    with pytest.raises(BadInput, match="EdgeBank scores links; it cannot be asked given a relation"):
        pintgn.fit("edgebank", facts(), relation="type", progress=False)


def test_numbers_can_be_relations():
    log = facts(200)
    codes = pintgn.read_events(
        {"s": log.src, "o": log.dst, "t": log.t, "type": log.features @ [1.0, 2.0, 7.0]},
        "s",
        "o",
        "t",
        features=["type"],
    )
    run = fitting.fit(asked(), codes)
    assert run.task.kinds == 4
    assert run.task.number(7) == run.task.number("7") == 3


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_id_is_no_relation(more, monkeypatch):
    monkeypatch.setattr(task_module, "MOST_RELATIONS", 3 - more)
    settings, log = asked(), facts()
    if more > 0:
        with pytest.raises(BadInput, match="has 3 values in training; at most 2 relations"):
            task_module.Related(settings.task, log, log)
    else:
        assert task_module.Related(settings.task, log, log).kinds == 4
