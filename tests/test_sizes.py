"""Constants that cut work into parts, just below, at and above each, through the public verbs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import pintgn
from pintgn.check import random_log
from pintgn.cli.app import app
from pintgn.live.answerer import NODES, SCORED
from pintgn.live.observing import BLOCK
from pintgn.models.pint import PINT
from pintgn.serve.answers import RANKED
from pintgn.serve.api import create_app
from pintgn.serve.event_store import CHUNK, KEYS
from pintgn.serve.service import Service
from pintgn.serve.writer import GROUP
from pintgn.stream import Stream
from pintgn.stream.core import PAIRS_AT_ONCE, WORTH_RANKING
from tests.serve.helpers import TestClient, all_scores

AROUND = [-1, 0, 1]
RANKED_AT_ONCE = [PAIRS_AT_ONCE + k for k in AROUND] + [2 * PAIRS_AT_ONCE + k for k in AROUND]
FEW = 24


def destinations(begin: int, end: int) -> list[tuple[str, str, int]]:
    """Events that each meet another destination; their source is never one, so all of them are candidates."""
    return [(f"user {k % 5}", f"item {k}", 100 + k // 4) for k in range(begin, end)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small PINT that knows a few destinations."""
    folder = tmp_path_factory.mktemp("sizes") / "run"
    rows = [(f"user {k % 5}", f"item {k % FEW}", k // 4) for k in range(200)]
    log = pintgn.read_events(dict(zip(("src", "dst", "t"), map(list, zip(*rows, strict=True)), strict=True)))
    pintgn.fit(PINT(dim=4, neighbors=2, positions=2), log, folder=folder, epochs=1, batch=100)
    return folder


def command(*given) -> str:
    """What `pintgn …` prints."""
    result = CliRunner().invoke(app, [str(one) for one in given])
    assert result.exit_code == 0, result.exception
    return result.stdout


def close(one, other) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


# -- ranking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [WORTH_RANKING - 1, WORTH_RANKING, WORTH_RANKING + 1, *RANKED_AT_ONCE])
@pytest.mark.parametrize("rows", [1, 3])
def test_ranking_any_number_of_candidates_equals_scoring_pair_by_pair(width, rows):
    log = random_log(events=60)
    stream = Stream(PINT(dim=4, neighbors=2, positions=2, memory=3), log.schema, node_features=log.node_features)
    stream.observe(log[:40])
    control = stream.fork()
    asked = log[40 : 40 + rows].query
    wide = np.random.default_rng(width).integers(0, log.nodes, (rows, width))
    with torch.no_grad():
        ranked = stream.rank(log[40:], asked, wide)
        pairs = asked[np.repeat(np.arange(rows), width)].toward(wide.ravel())
        scored = control.replay(log[40:], [pairs])[0].view(rows, width)
    torch.testing.assert_close(ranked, scored, rtol=1e-5, atol=1e-5)
    assert (stream.clock, stream.events) == (control.clock, control.events), "the batch has happened once"


@pytest.mark.parametrize("rows", [PAIRS_AT_ONCE // 10 + k for k in AROUND])
def test_ranking_any_number_of_rows_equals_scoring_pair_by_pair(rows):
    log = random_log(events=60)
    stream = Stream(PINT(dim=4, neighbors=2, positions=2), log.schema, node_features=log.node_features)
    stream.observe(log)
    rng = np.random.default_rng(rows)
    asked = pintgn.Query(rng.integers(0, 9, rows), np.zeros(rows, int), rng.integers(log.t[-1] + 1, 999, rows))
    wide = rng.integers(0, log.nodes, (rows, 10))
    with torch.no_grad():
        pairs = asked[np.repeat(np.arange(rows), 10)].toward(wide.ravel())
        torch.testing.assert_close(stream.rank(None, asked, wide), stream.score(pairs).view(rows, 10))


def test_a_run_recommends_among_any_number_of_destinations(run):
    live, known = pintgn.open(run), FEW
    for count in RANKED_AT_ONCE:
        live.observe(destinations(known, count))
        known = count
        best = live.recommend("user 1", k=count + 1)
        assert len({one.dst for one in best}) == len(best) == count
        some = best[:: count // 40]
        close([one.logit for one in some], list(live.score("user 1", [one.dst for one in some]).values()))


@pytest.mark.parametrize("count", [PAIRS_AT_ONCE, PAIRS_AT_ONCE + 1])
def test_the_command_recommends_among_any_number_of_destinations(run, tmp_path, count):
    rows = [",".join(map(str, row)) for row in destinations(FEW, count)]
    (tmp_path / "more.csv").write_text("\n".join(["src,dst,t", *rows]))
    given = ("recommend", run, "--src", "user 1", "-k", str(count + 1), "--observe", tmp_path / "more.csv", "--json")
    assert len(json.loads(command(*given))["recommended"]) == count


def test_a_service_that_met_many_destinations_recommends_starts_again_and_exports(run, tmp_path):
    known = FEW
    sizes = sorted([*RANKED_AT_ONCE, *(RANKED + k for k in AROUND), *(2 * RANKED + k for k in AROUND)])
    for count in sizes:  # a start between each two
        with Service.open(run, tmp_path / "store") as service:
            new = destinations(known, count)
            service.observe([dict(zip(("src", "dst", "t"), row, strict=True)) for row in new])
            known = count
            with TestClient(create_app(service)) as client:
                answer = client.get("/recommend/user 1", params={"k": 1_000})
            assert answer.status_code == 200, answer.text
            items = answer.json()["items"]
            assert len(items) == 1_000
            with service.asking() as live:
                best = live.recommend("user 1", k=1_000)
            close([one["logit"] for one in items], [one.logit for one in best])
    command("serve", run, "--store", tmp_path / "store", "--export", tmp_path / "all.csv")
    assert len(pintgn.read_events(tmp_path / "all.csv")) == 200 + sizes[-1] - FEW


def test_a_question_that_fails_while_warming_up_does_not_keep_a_service_from_starting(run, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise IndexError("index -1 is out of bounds")

    for verb in ("score", "recommend", "explain"):
        monkeypatch.setattr(f"pintgn.live.live.Live.{verb}", broken)
    with Service.open(run, tmp_path / "store") as service:
        assert service.observe([{"src": "a", "dst": "b", "t": 100}])["accepted"] == 1


# -- other verbs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", AROUND)
def test_any_number_of_pairs_is_scored_and_of_nodes_embedded(run, extra):
    live = pintgn.open(run)
    ids = [f"item {k % FEW}" for k in range(SCORED + extra)]
    once = live.score("user 1", ids[:FEW])
    logits = live.score_pairs(["user 1"] * len(ids), ids).logits
    close(logits, [once[id] for id in ids])
    ids = [f"item {k % FEW}" for k in range(NODES + extra)]
    names, found = live.embed(ids)
    assert names == ids
    close(found, live.embed(ids[:FEW])[1][np.arange(len(ids)) % FEW])


@pytest.mark.parametrize(
    "count", [BLOCK + k for k in AROUND] + [CHUNK + k for k in AROUND] + [GROUP + k for k in AROUND]
)
def test_a_batch_of_any_size_is_kept_and_replayed(run, tmp_path, count):
    rows = [dict(zip(("src", "dst", "t"), row, strict=True)) for row in destinations(0, count)]
    with Service.open(run, tmp_path / "store") as service:
        assert service.observe(rows)["accepted"] == count
        live = service.live
        service.saver.at = 10**9  # no snapshot: the next start reads every event
    with Service.open(run, tmp_path / "store") as service:
        assert service.replayed == count
        assert service.live.total == live.total
        assert service.live.destinations.values.tolist() == live.destinations.values.tolist()
        assert np.array_equal(all_scores(service.live), all_scores(live))


@pytest.mark.parametrize("extra", AROUND)
def test_any_number_of_keys_is_known_again(run, tmp_path, extra):
    rows = [{"src": "a", "dst": "b", "t": 100, "key": str(k)} for k in range(KEYS + extra)]
    with Service.open(run, tmp_path / "store") as service:
        service.observe(rows)
        assert service.observe(rows)["duplicates"] == KEYS + extra
