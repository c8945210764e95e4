"""Figures: inside the full stream, by the papers' protocol, among many candidates, and with heuristics beside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn import PINT, EventLog, Model, Stream, evaluate, fit
from pintgn.errors import BadInput, UnknownName
from pintgn.learn import measure, paper
from pintgn.learn.metrics import CHUNK, ranks
from pintgn.learn.negatives import KINDS, Candidates
from pintgn.learn.protocol import Parts, destinations
from pintgn.models.history_view import Events
from pintgn.stream.history import History
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning


class Looks(Model):
    """What a model may look at, as a number: contacts of src so far + 1000 * meetings of src and dst in positions."""

    def __init__(self):
        super().__init__()
        self.positions = 2
        self.positions_transform = "raw"

    def make(self, schema):
        pass

    def gather(self, query, history):
        return history.count(query.src), history.positions(query.dst[:, None], query.src[:, None])

    def forward(self, inputs, state):
        contacts, positions = inputs
        return torch.from_numpy(contacts + 1000.0 * positions.answer[:, 0, 0, 1])


@pytest.fixture(scope="module")
def log():
    return random_log(900, 25, ties=3)


@pytest.fixture(scope="module")
def run(log, tmp_path_factory):
    return fit(PINT(dim=8, neighbors=4, positions=2), log, folder=tmp_path_factory.mktemp("runs") / "run", **QUICK)


@pytest.fixture(scope="module")
def counting(log):
    return fit(Looks(), log, **QUICK)


def mrr(found, name):
    return found.ranking[name]["all"]["mrr"]


def looked(log, contacts_from, meetings_from, query):
    """By brute force: what `Looks` should have seen."""
    found = []
    for src, dst, t in zip(query.src, query.dst, query.t, strict=True):
        all_, seen = contacts_from, meetings_from
        contacts = ((all_.src == src) | (all_.dst == src)) & (all_.t < t)
        met = (((seen.src == src) & (seen.dst == dst)) | ((seen.src == dst) & (seen.dst == src))) & (seen.t < t)
        found.append(contacts.sum() + 1000 * met.sum())
    return np.array(found, float)


def joined(*logs):
    return EventLog(*(np.concatenate([getattr(one, name) for one in logs]) for name in ("src", "dst", "t")))


# -- the two protocols ---------------------------------------------------------------------------------------------


def test_the_stream_knows_the_whole_log_before_each_event_and_nothing_else(log):
    parts = Parts.of(log, hidden=0.2)
    stream = Stream(Looks(), log.schema)
    stream.observe(parts.before(parts.test))
    (found,) = measure.score_part(stream, parts.test, [parts.test.query])
    assert found.tolist() == looked(log, log, log, parts.test.query).tolist()


@pytest.mark.parametrize("name", ["val", "test"])
def test_the_papers_protocol_has_all_neighbors_but_positions_of_what_was_trained_on(log, name):
    parts = Parts.of(log, hidden=0.2)
    part = parts.named(name)
    trained = Stream(Looks(), log.schema)
    trained.observe(parts.trained)
    observed = [parts.trained, parts.val, part] if name == "test" else [parts.trained, part]
    found = paper.measure(trained, parts, part, ["random"], seed=0)
    assert found.scores["random"].positive.tolist() == looked(log, log, joined(*observed), part.query).tolist()
    # new nodes: only their events are replayed, from the same point
    only = part.where(parts.is_new(part))
    again = trained.fork(history=paper.WholeLog(parts.log, trained.history))
    if name == "test":
        again.observe(parts.val)
    (inductive,) = measure.score_part(again, only, [only.query])
    assert inductive.tolist() == looked(log, log, joined(*observed[:-1], only), only.query).tolist()
    assert found.figures["random"]["new"]["events"] == len(only)
    assert trained.events == len(parts.trained), "the stream that was given is left alone"


def test_without_hidden_nodes_both_protocols_agree(log):
    run = fit(PINT(dim=8, neighbors=4, positions=2, memory=5), log, **QUICK | {"hidden": 0.0, "epochs": 1})
    ours, theirs = (evaluate(run, protocol=name, baselines=()) for name in ("stream", "paper"))
    assert ours.negatives["random"]["pint"]["all"] == theirs.negatives["random"]["pint"]["all"]


def test_a_run_can_be_trained_by_the_papers_protocol(log):
    options = QUICK | {"protocol": "paper", "choose_by": "chunked_ap", "positions_refresh": "block"}
    run = fit(PINT(dim=8, neighbors=4, positions=2, memory=5), log, **options)
    assert evaluate(run, seed=run.seed, baselines=()).negatives["random"]["pint"] == run.test
    val = evaluate(run, seed=run.seed, baselines=(), part="val").negatives["random"]["pint"]
    assert val == run.history[run.best_epoch - 1]["val"]
    assert "as in the paper" in str(run)


def test_evaluating_again_gives_the_figures_of_training(run):
    found = evaluate(run.folder.path, seed=run.seed)
    assert found.negatives["random"]["pint"] == run.test
    assert (
        evaluate(run, seed=run.seed, part="val").negatives["random"]["pint"] == run.history[run.best_epoch - 1]["val"]
    )


@pytest.mark.parametrize(("batch", "pairs"), [(1, 90), (37, 7), (132, 6), (133, 8), (134, 1_000_000)])
def test_no_figure_depends_on_the_batch_of_the_computation(run, counting, batch, pairs, monkeypatch):
    """Counts, which have no last bits, to the last digit; of learned scores, nearly equal ones may change places."""
    assert len(run.parts.test) == 133, "just below, at and above a whole part"
    before = [evaluate(one, list(KINDS), rank=7) for one in (run, counting)]
    monkeypatch.setattr(measure, "BATCH", batch)
    monkeypatch.setattr(measure, "PAIRS", pairs)
    after = [evaluate(one, list(KINDS), rank=7) for one in (run, counting)]
    assert [one.fallback for one in after] == [one.fallback for one in before]
    assert figures(after[1]) == figures(before[1])
    learned, again = figures(before[0]), figures(after[0])
    assert {name for name, *_ in learned} == {*KINDS, "ranking"}
    assert learned.keys() == again.keys()
    for place, value in learned.items():
        assert again[place] == (None if value is None else pytest.approx(value, abs=0.02)), place


def figures(evaluation):
    """Every figure: by kind of negatives (or `ranking`), model, group and measure."""
    tables = evaluation.negatives | {"ranking": evaluation.ranking}
    return {
        (kind, model, group, measure): value
        for kind, rows in tables.items()
        for model, groups in rows.items()
        for group, metrics in groups.items()
        for measure, value in metrics.items()
    }


# -- beside it -----------------------------------------------------------------------------------------------------


def test_heuristics_stand_beside_every_result(log):
    run = fit(PINT(dim=8, neighbors=4, positions=2), log, **QUICK | {"epochs": 1})
    assert set(run.heuristics["edgebank"]) == {"all", "seen", "new"}
    assert "edgebank" in str(run)
    found = evaluate(run, ["random", "per-event"], rank=5)
    for rows in (*found.negatives.values(), found.ranking):
        assert list(rows) == ["pint", "edgebank", "heuristic"]
    assert run.heuristics["heuristic"] == fit("heuristic", log, **QUICK).test
    assert "fell back on random" in str(found) or found.fallback["per-event"] == 0
    assert "edgebank" not in evaluate(run, baselines=()).negatives["random"]


def test_a_model_that_learns_is_trained_and_measured_on_the_same_parts(log):
    run = fit(PINT(dim=8, neighbors=4, positions=2), log, seed=3, **QUICK | {"epochs": 1, "val": 0.2, "hidden": 0.2})
    told = []
    found = evaluate(
        run, ["random", "historical"], rank=5, baselines=["boosted"], progress=lambda *args: told.append(args[2])
    )
    assert list(found.negatives["random"]) == list(found.ranking) == ["pint", "boosted"]
    assert "training boosted" in told
    alone = fit("boosted", log, seed=3, **QUICK | {"val": 0.2, "hidden": 0.2})
    expected = evaluate(alone, ["random", "historical"], rank=5, baselines=())
    assert found.negatives["historical"]["boosted"] == expected.negatives["historical"]["boosted"]
    assert found.ranking["boosted"] == expected.ranking["boosted"]
    papers = evaluate(run, protocol="paper", baselines=["boosted"]).negatives["random"]["boosted"]
    assert papers == evaluate(alone, protocol="paper", baselines=()).negatives["random"]["boosted"]


def test_what_cannot_stand_beside_a_run_is_refused(log):
    run = fit("heuristic", log, **QUICK)
    assert list(evaluate(run, baselines=["heuristic", "edgebank"]).negatives["random"]) == ["heuristic", "edgebank"]
    with pytest.raises(UnknownName, match="boostd"):
        evaluate(run, baselines=["boostd"])
    with pytest.raises(BadInput, match="ctdne does not score links"):
        evaluate(run, baselines=["ctdne"])


def test_progress_begins_at_nothing_and_ends_with_every_event(log):
    run = fit(PINT(dim=8, neighbors=4, positions=2), log, **QUICK | {"epochs": 1})
    told = []
    evaluate(run, "random", baselines=(), progress=lambda done, total, what: told.append((done, total, what)))
    total = len(run.parts.test)
    before = len(run.parts.before(run.parts.test))
    assert told[:2] == [(done, before, "observing what came before") for done in (0, before)]
    assert told[-1] == (total, total, "pint")


def test_one_run_has_no_mean_and_several_have(log):
    run = fit(PINT(dim=8, neighbors=4, positions=2), log, **QUICK | {"epochs": 1})
    assert "mean ±" not in str(evaluate(run, baselines=()))
    assert "mean ± standard deviation of 2 runs" in str(evaluate([run, run], baselines=()))


def test_heuristics_are_measured_by_the_protocol_of_the_model_beside_them(log):
    options = QUICK | {"epochs": 1, "protocol": "paper"}
    run = fit(PINT(dim=8, neighbors=4, positions=2), log, **options)
    alone = fit("heuristic", log, **options).test
    assert run.heuristics["heuristic"] == alone
    found = evaluate(run, seed=run.seed).negatives["random"]
    assert found["heuristic"] == alone
    assert found["heuristic"] != evaluate(run, protocol="stream", seed=run.seed).negatives["random"]["heuristic"]


def test_a_model_without_parameters_is_measured_as_it_is(log):
    run = fit(Looks(), log, **QUICK)
    assert run.history == []
    assert run.test["all"]["ap"] > 0.5


def test_a_test_part_without_new_nodes_says_so():
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 8, 400), rng.integers(0, 8, 400), np.arange(400))
    run = fit(PINT(dim=8, positions=2), log, **QUICK | {"hidden": 0.0, "epochs": 1})
    assert run.test["new"]["ap"] is None
    assert str(run).splitlines()[-1] == "No event touches a new node."
    assert "new nodes" not in str(run)
    assert evaluate(run, rank=3).ranking["pint"]["new"]["mrr"] is None
    assert str(evaluate(run, rank=3)).endswith("No event touches a new node.")


def test_several_runs_are_averaged(run):
    other = fit(PINT(dim=8, neighbors=4, positions=2), run.log, seed=1, **QUICK | {"epochs": 1})
    found = evaluate([run, other], rank=3)
    single = [evaluate(one, rank=3).ranking["pint"]["all"]["mrr"] for one in (run, other)]
    assert found.runs == 2
    assert found.ranking["pint"]["all"]["mrr"] == (
        pytest.approx(np.mean(single)),
        pytest.approx(np.std(single, ddof=1)),
    )
    assert "±" in str(found)


# -- ranking -------------------------------------------------------------------------------------------------------


def test_all_candidates_but_other_true_destinations_of_the_same_source_and_time(log):
    part = log.split()[2]
    among = Candidates(log, part, "all")
    pool = destinations(log)
    nodes, valid = among(0, len(part))
    for row in range(len(part)):
        same = (part.src == part.src[row]) & (part.t == part.t[row])
        assert set(nodes[row][valid[row]].tolist()) == set(pool.tolist()) - set(part.dst[same].tolist())


@pytest.mark.parametrize("count", [3, 5, 17])
def test_sampled_candidates_are_distinct_filtered_and_fixed(log, count):
    part = log.split()[2]
    one, again = (Candidates(log, part, count, seed=1) for _ in range(2))
    whole, valid = one(0, len(part))
    pieces = np.concatenate([again(start, min(start + 23, len(part)))[0] for start in range(0, len(part), 23)])
    assert (pieces == whole).all(), "a sample does not depend on how a part is cut"
    assert valid.all() or count == 17
    for row in range(len(part)):
        chosen = whole[row][valid[row]].tolist()
        same = (part.src == part.src[row]) & (part.t == part.t[row])
        assert len(set(chosen)) == len(chosen)
        assert not set(chosen) & set(part.dst[same].tolist())
    assert (Candidates(log, part, count, seed=2)(0, len(part))[0] != whole).any()


def test_samples_from_a_large_pool_are_distinct_and_filtered():
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 5, 3_000), 5 + rng.integers(0, 900, 3_000), np.sort(rng.integers(0, 500, 3_000)))
    part = log.split()[2]
    nodes, valid = Candidates(log, part, 20)(0, len(part))
    assert valid.all()
    assert all(len(set(row)) == 20 for row in nodes.tolist())
    for row in range(len(part)):
        same = (part.src == part.src[row]) & (part.t == part.t[row])
        assert not set(nodes[row].tolist()) & set(part.dst[same].tolist())


@pytest.mark.parametrize(("model", "off"), [("run", 0.01), ("counting", 1e-9)])  # the first: nearly equal scores
def test_ranks_are_those_of_pair_by_pair_scores(model, off, request):
    run = request.getfixturevalue(model)
    parts = run.parts
    among = Candidates(parts.log, parts.test, "all")
    stream = run.new_stream()
    stream.observe(parts.before(parts.test))
    found = []
    with measure.eval_mode(run.model):
        for batch in parts.test.batches(50):
            start = batch.first - parts.test.first
            nodes, valid = among(start, start + len(batch))
            queries = [batch.query, *(batch.query.toward(column) for column in nodes.T)]
            scores = torch.stack(stream.replay(batch, queries)).numpy()
            found.append(ranks(scores[0], scores[1:].T, valid))
    expected = float(np.mean(1 / np.concatenate(found)))
    assert mrr(evaluate(run, rank="all"), run.settings.name) == pytest.approx(expected, abs=off)


@pytest.mark.parametrize("rank", [0, -1, "some", 1.5])
def test_a_wrong_number_of_candidates_is_one_line(run, rank):
    with pytest.raises(BadInput, match="'all' or a number"):
        evaluate(run, rank=rank)


def test_wrong_names_are_suggested(run):
    with pytest.raises(UnknownName, match="inductive"):
        evaluate(run, "inductiv")
    with pytest.raises(UnknownName, match="paper"):
        evaluate(run, protocol="papers")
    with pytest.raises(BadInput, match="'val' or 'test'"):
        evaluate(run, part="train")


def test_measured_rows_are_asked_about_in_order(log):
    op = np.where(np.arange(len(log)) % 5 == 0, -1, 1)
    with_deletions = EventLog(log.src, log.dst, log.t, op=op)
    parts = Parts.of(with_deletions)
    stream = Stream(Looks(), with_deletions.schema)
    stream.observe(parts.before(parts.test))
    events = parts.test.scored_events
    (found,) = measure.score_part(stream, parts.test, [events.query])
    assert found.tolist() == looked(log, with_deletions, with_deletions, events.query).tolist()


def test_neighbors_of_the_whole_log_can_be_stale_by_a_block_too(log):
    """Blocks are counted from the log's first row, and never part simultaneous events."""
    history = paper.WholeLog(log, History(block=10))
    t = np.append(log.t, log.t[-1] + 1)
    before = np.searchsorted(log.t, t, "left")
    for row, found in zip(before, history.before(t, Events.none(0, None)), strict=True):
        begin = row - row % 10
        assert found == (begin if begin == len(log) else np.searchsorted(log.t, log.t[begin], "left"))
    fresh = paper.WholeLog(log, History())
    assert fresh.before(t, Events.none(0, None)).tolist() == before.tolist()


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_of_many_events_stretches_are_scored_and_it_is_said(offset):
    run = fit("heuristic", random_log(4_000, 25, ties=3), **QUICK)
    whole = evaluate(run, ["random", "per-event"], rank=5, baselines=["edgebank"])
    count = whole.of_events
    assert whole.events == count > 2 * CHUNK
    assert "evenly taken" not in str(whole)
    found = evaluate(run, ["random", "per-event"], rank=5, baselines=["edgebank"], most=count + offset)
    if offset >= 0:
        assert found == whole
        return
    assert 0 < found.events < count == found.of_events
    assert f"({found.events} of {count} events, evenly taken)" in str(found)
    for rows in (*found.negatives.values(), found.ranking):
        assert {of["all"]["events"] for of in rows.values()} == {found.events}
    with pytest.raises(BadInput, match="most=1"):
        evaluate(run, most=1)


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_no_figure_depends_on_the_piece_that_is_observed(run, monkeypatch, offset):
    whole = evaluate(run, baselines=["edgebank"])
    monkeypatch.setattr(measure, "PIECE", len(run.parts.before(run.parts.test)) // 2 + offset)
    seen = []
    found = evaluate(run, baselines=["edgebank"], progress=lambda *given: seen.append(given))
    assert found.negatives == whole.negatives
    steps = [(done, total) for done, total, what in seen if what == "observing what came before"]
    assert len(steps) == 1 + -(-steps[-1][1] // measure.PIECE)
    assert steps[-1] == (len(run.parts.before(run.parts.test)),) * 2
