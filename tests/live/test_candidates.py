"""Candidates from walks in place of all destinations, and embeddings chunk by chunk."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pintgn
from pintgn import PINT, fit
from pintgn.cli.app import app
from pintgn.errors import BadInput
from pintgn.live import candidates, embeddings, recommend
from pintgn.live.candidates import Candidates, standing
from pintgn.live.live import Live
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("candidates") / "run"
    fit(PINT(dim=8, neighbors=4), pintgn.simulate("shop", events=1_500, seed=0), folder=path, **QUICK)
    return path


@pytest.fixture(scope="module")
def live(folder):
    return pintgn.open(folder)


@pytest.fixture(scope="module")
def untidy():
    """A log with ties, self-loops and repeats, whose nodes are on both sides."""
    return pintgn.open(fit("heuristic", random_log(), **QUICK))


def pool(live) -> np.ndarray:
    return np.sort(live.destinations.values)


def walked(log, src: int, when, newest: int, steps) -> dict[int, float]:
    """Whom walks reach, with their weights, written out."""
    contacts = defaultdict(list)
    for u, v, t, tie in zip(log.src.tolist(), log.dst.tolist(), log.t.tolist(), log.ties.tolist(), strict=True):
        if t < when:
            contacts[u].append((t, tie, v))
            if u != v:
                contacts[v].append((t, tie, u))
    reached: dict[int, float] = defaultdict(float)
    now = {src: 1.0}
    for most, count in ((1, newest), *steps):
        chosen = sorted(now, key=lambda node: (-now[node], node))[:most]
        after: dict[int, float] = defaultdict(float)
        for node in chosen:
            last = [v for *_, v in sorted(contacts[node], reverse=True)[:count]]
            total = sum(1 / (1 + k) for k in range(len(last)))
            for k, v in enumerate(last):
                after[v] += now[node] / (1 + k) / total
        for node, weight in after.items():
            reached[node] += weight
        now = after
    return reached


@pytest.mark.parametrize("newest", [1, 4, 64])
def test_candidates_are_those_that_walks_reach(untidy, monkeypatch, newest):
    monkeypatch.setattr(candidates, "NEWEST", newest)
    monkeypatch.setattr(candidates, "STEPS", ((3, 2), (5, 2)))
    log, when = untidy.run.log, untidy.time_of()
    made = Candidates(untidy, pool(untidy), when, 7)  # none of them popular
    assert len(made.popular) == 0
    found = made(np.arange(log.nodes + 1))
    for src in range(log.nodes + 1):
        reached = walked(log, src, when, newest, ((3, 2), (5, 2)))
        reached = {v: w for v, w in reached.items() if v in set(pool(untidy).tolist())}
        mine = [v for v in found[src].tolist() if v >= 0]
        assert mine == sorted(mine)
        assert len(mine) == min(7, len(reached))
        least = min((reached[v] for v in mine), default=0)
        assert all(w <= least * (1 + 1e-9) for v, w in reached.items() if v not in mine)


@pytest.mark.parametrize("count", [8, 15, 16, 17, 100, 2_000])
def test_a_source_has_so_many_candidates_and_no_more(live, count):
    made = Candidates(live, pool(live), live.time_of(), count)
    src = np.unique(live.run.log.src)[:40]
    found = made(src)
    assert ((found >= 0).sum(1) <= count).all()
    assert np.isin(found[found >= 0], pool(live)).all()
    assert all(np.isin(made.popular, row).all() for row in found)
    assert len(made.popular) <= 2 * (count // 8)
    one_by_one = [made(src[k : k + 1])[0] for k in range(len(src))]
    assert [row[row >= 0].tolist() for row in found] == [row.tolist() for row in one_by_one]


def test_at_the_clock_nobody_is_popular_by_its_events(untidy):
    live = Live(untidy.run, untidy.run.deployed.stream.fork())
    at, nodes = live.time_of(), np.arange(len(live.names))
    before = standing(live, nodes, at)
    live.observe([(live.names.ids[u], live.names.ids[v], at) for u, v in ((0, 1), (1, 0), (2, 2), (0, 1))])
    assert np.array_equal(standing(live, nodes, at), before)
    degree, last = standing(live, nodes, at + 1)
    assert (degree - before[0])[:4].tolist() == [3, 3, 1, 0]
    assert (last[:3] == at).all()


def test_enough_candidates_are_all_destinations_and_give_the_exact_answer(live, monkeypatch):
    monkeypatch.setattr(recommend, "CANDIDATES", 8 * len(pool(live)))
    since = int(live.run.log.t[-700])
    for options in ({}, {"exclude_met": True}, {"active_since": since}):
        exact, some = (live.recommend_many("all", 5, exact=exact, **options) for exact in (True, False))
        for name in exact.column_names:
            if name in ("next_probability", "probability", "logit"):
                np.testing.assert_allclose(some[name].to_numpy(), exact[name].to_numpy(), rtol=1e-4, atol=1e-5)
            else:
                assert some[name].equals(exact[name]), name


def test_among_few_candidates_the_best_are_as_they_would_be_among_all(live, monkeypatch):
    monkeypatch.setattr(recommend, "CANDIDATES", 40)
    made = Candidates(live, pool(live), live.time_of(), recommend.CANDIDATES)
    src = ["user1", "user2", "never seen"]
    nodes = made(live.names.find(src, 0))
    exact = live.recommend_many(src, len(pool(live)), exact=True)
    for row, one in enumerate(src):
        ids = {live.names.ids[k] for k in nodes[row].tolist() if k >= 0}
        ranked = [line["dst"] for line in exact.to_pylist() if line["src"] == one and line["dst"] in ids]
        assert [best.dst for best in live.recommend(one, 4, exact=False)] == ranked[:4]


def test_a_source_is_not_recommended_to_itself_unless_there_are_self_loops(untidy):
    own = [row for row in untidy.recommend_many("all", 30, exact=False).to_pylist() if row["src"] == row["dst"]]
    assert bool(own) == untidy.destinations.loops_before(untidy.time_of())


@pytest.mark.parametrize(("offset", "some"), [(-1, True), (0, False), (1, False)])
def test_every_destination_is_ranked_up_to_so_many(live, monkeypatch, offset, some):
    monkeypatch.setattr(recommend, "EXACT", len(pool(live)) + offset)
    asked = []
    monkeypatch.setattr(recommend, "Candidates", lambda *given: asked.append(given) or Candidates(*given))
    live.recommend("user1")
    assert bool(asked) == some
    live.recommend("user1", among=["item1", "item2"])
    assert len(asked) == some  # named ones are all ranked
    monkeypatch.setattr("pintgn.live.recommend.Candidates", lambda *given: Candidates(*given, 20))  # as a service asks
    assert (len(recommend.candidates(live, "user1")) < len(pool(live))) == some


def test_the_command_says_that_candidates_were_ranked(folder, monkeypatch):
    monkeypatch.setattr(recommend, "EXACT", 5)
    found = CliRunner().invoke(app, ["recommend", str(folder), "--src", "user1", "-k", "2", "--json"])
    assert "candidates of each source were ranked; or --exact" in found.stderr
    assert len(json.loads(found.stdout)["recommended"]) == 2
    found = CliRunner().invoke(app, ["recommend", str(folder), "--src", "user1", "-k", "2", "--json", "--exact"])
    assert "candidates" not in found.stderr


# -- embeddings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_embeddings_are_the_same_in_chunks_of_any_size(live, monkeypatch, offset):
    ids, matrix = live.embed()
    monkeypatch.setattr(embeddings, "CHUNK", len(ids) // 2 + offset)
    steps = []
    table = live.embed_many(progress=lambda *given: steps.append(given)).read_all()
    assert table["id"].to_pylist() == ids
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy()), matrix, rtol=0, atol=1e-6)  # but for rounding
    assert steps[-1] == (len(ids), len(ids))
    assert len(steps) == -(-len(ids) // (len(ids) // 2 + offset))


def test_nodes_that_were_never_seen_are_flagged():
    log = random_log()
    nodes = {"id": [*range(log.nodes), 99], "x": np.arange(log.nodes + 1.0)}
    table = {"src": log.src, "dst": log.dst, "t": log.t}
    live = pintgn.open(fit(PINT(dim=4), pintgn.read_events(table, columns=pintgn.Columns(nodes=nodes)), **QUICK))
    found = live.embed_many([0, 99, 1234]).read_all()
    assert found["notes"].to_pylist() == ["", "no events", "unknown"]
    assert live.embed_many([]).read_all().num_rows == 0


def test_what_cannot_be_embedded_is_said_in_one_line(live):
    with pytest.raises(BadInput, match=r"list of ids, or 'all'.*embed\(\['user1'\]\)"):
        live.embed_many("user1")
    with pytest.raises(BadInput, match="'src' or 'dst'"):
        live.embed_many(["user1"], side="left")


def test_observing_a_table_says_how_far_it_is(folder):
    live, told = pintgn.open(folder), []
    times = int(live.clock) + np.arange(1, 1_202)
    shown = pa.table({"src": ["user1"] * 1_201, "dst": ["item1"] * 1_201, "t": times})
    shown = shown.set_column(2, "t", pa.array(times).view(pa.timestamp("s", live.schema.time.zone)))
    assert live.observe(shown, progress=lambda *given: told.append(given)) == 1_201
    assert told == [(done, 1_201) for done in (500, 1_000, 1_201)]
