"""What training makes small: losses by hand, the learning rate's course, and pairs that met before."""

from __future__ import annotations

import math
import tomllib
import tracemalloc

import numpy as np
import pytest
import torch

from pintgn import PINT, EventLog, fit
from pintgn.errors import BadInput, UnknownName
from pintgn.learn.defaults import from_training
from pintgn.learn.measure import rank_part
from pintgn.learn.negatives import destinations, earlier_pairs
from pintgn.learn.settings import Settings, Training
from pintgn.learn.tasks import link
from pintgn.learn.tasks.link import AGAINST, link_loss, ranking_loss
from pintgn.learn.train import LEAST_RATE, learning_rate
from tests.learn.helpers import QUICK, random_log


def soft(x: float) -> float:
    return math.log1p(math.exp(x))


def test_binary_loss_weighs_events_and_all_their_negatives_alike():
    yes, no = torch.tensor([1.0, 2.0]), [torch.tensor([0.0, -1.0]), torch.tensor([3.0, 0.5])]
    wanted = (soft(-1) + soft(-2)) / 2 + (soft(0) + soft(-1) + soft(3) + soft(0.5)) / 4
    assert link_loss(yes, no, Training(negatives_per_event=2)).item() == pytest.approx(wanted, rel=1e-6)


def test_two_questions_are_learned_by_the_cross_entropy_of_three_classes():
    """A class's log-likelihood is that of an event less the logit against that kind: z_0 - z_kind = logit."""
    rng = torch.Generator().manual_seed(0)
    yes, random, more, met = torch.randn(4, 5, 2, generator=rng)
    found = link_loss(yes, [random, more, met], Training(negatives_per_event=2))
    rows = torch.cat([yes, random, more, met])
    classes = torch.cat([torch.zeros(20, 1), -rows], 1)
    wanted = torch.nn.functional.cross_entropy(
        classes, torch.tensor([0] * 5 + [1] * 10 + [2] * 5), weight=torch.tensor([2.0, 1.0, 2.0]), reduction="sum"
    )
    assert found.item() == pytest.approx(wanted.item() / 10, rel=1e-5)


def test_ranking_loss_is_the_cross_entropy_of_an_event_among_its_negatives_that_did_not_happen():
    """One random and one popular negative; the first event's popular one happened. Historical ones are not ranked."""
    rng = torch.Generator().manual_seed(0)
    yes, random, popular, met = torch.randn(4, 2, 2, generator=rng)
    happened = np.array([[False, True], [False, False]])
    found = ranking_loss([yes, random, popular, met], happened, Training())
    first = [torch.stack([yes[0, 0], random[0, 0]]), torch.stack([yes[1, 0], random[1, 0], popular[1, 0]])]
    wanted = sum(-torch.log_softmax(one, 0)[0] for one in first) / 2 + link_loss(yes, [random, met], Training())
    assert found.item() == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("asked", [1, AGAINST, AGAINST + 1])
def test_a_run_for_ranking_draws_popular_negatives_and_chooses_by_mrr(asked):
    log = random_log(600, 30, 0, ties=3)
    model = PINT(dim=4, neighbors=3, historical=True)
    run = fit(model, log, purpose="ranking", epochs=2, negatives_per_event=asked, progress=False)
    each, events = max(asked, AGAINST), run.parts.trained[:50]
    queries, happened = run.task.sampler(run, None)(events, np.random.default_rng(0))
    assert len(queries) == 1 + 2 * each + 1
    assert happened.shape == (50, 2 * each)
    for popular in queries[1 + each : 1 + 2 * each]:
        assert np.isin(popular.dst, events.dst).all(), "destinations of the batch itself"
    assert {entry["chosen_by"] for entry in run.history} == {"mrr"}
    best = max(run.history, key=lambda entry: entry["val"]["all"]["mrr"])
    assert run.best_epoch == best["epoch"]
    assert 0 < best["val"]["all"]["ap"] <= 1, "scores against random ones are measured, too"


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_mrr_that_chooses_is_of_so_many_events_among_so_many_destinations(monkeypatch, more):
    """Of fewer where there are fewer; events come in whole chunks of 200."""
    log = random_log(4_000, 60, 0, ties=1)
    seen = []
    monkeypatch.setattr(link, "rank_part", lambda *given: seen.append(given) or rank_part(*given))
    run = fit("edgebank", log, purpose="ranking", hidden=0.0, progress=False)
    events, pool = len(run.parts.val), len(destinations(run.parts.until(run.parts.val)))
    monkeypatch.setattr(link, "RANKED", events + more)
    monkeypatch.setattr(link, "AMONG", pool + more)
    found = run.task.validate(run, lambda: run.stream_after(run.parts.train), None)
    _, _, among, new, _, only = seen[-1]
    assert only.sum() == len(new) == (events if more >= 0 else events // 200 * 200 - (200 if events % 200 == 0 else 0))
    assert among.count == min(pool + more, pool)
    assert 0 < found["all"]["mrr"] <= 1


def test_a_second_question_leaves_the_first_logits_gradient_finite_at_any_scale():
    yes, no, met = (torch.full((3, 2), z, requires_grad=True) for z in (80.0, -80.0, 500.0))
    link_loss(yes, [no, met], Training()).backward()
    assert all(torch.isfinite(z.grad).all() for z in (yes, no, met))


def test_the_learning_rate_falls_by_a_cosine_or_stays():
    falling = Training(learning_rate=0.1, schedule="cosine")
    assert learning_rate(falling, 0, 100) == pytest.approx(0.1)
    assert learning_rate(falling, 50, 100) == pytest.approx(0.1 * (LEAST_RATE + (1 - LEAST_RATE) / 2))
    assert learning_rate(falling, 100, 100) == pytest.approx(0.1 * LEAST_RATE)
    assert learning_rate(Training(learning_rate=0.1), 77, 100) == 0.1


def test_who_gives_a_learning_rate_means_that_one():
    log = small_log()
    assert from_training(Settings.of({}), log).train.schedule == "cosine"
    assert from_training(Settings.of({"train": {"learning_rate": 1e-3}}), log).train.schedule == "constant"
    given = {"train": {"learning_rate": 1e-3, "schedule": "cosine"}}
    assert from_training(Settings.of(given), log).train.schedule == "cosine"


def small_log(events: int = 300) -> EventLog:
    rng = np.random.default_rng(3)
    return EventLog(rng.integers(0, 9, events), rng.integers(9, 30, events), np.sort(rng.integers(0, 200, events)))


def test_earlier_pairs_met_before_the_batch_and_are_not_in_it():
    log = small_log()
    draw = earlier_pairs(log)
    for first in (100, 250):
        batch = log[first : first + 40]
        found = draw(batch, np.random.default_rng(0))
        before = set(zip(log.src.tolist(), log.dst.tolist(), log.t.tolist(), strict=True))
        earlier = {(u, v) for u, v, t in before if t < batch.t[0]}
        now = set(zip(batch.src.tolist(), batch.dst.tolist(), strict=True))
        pairs = zip(found.src.tolist(), found.dst.tolist(), strict=True)
        replaced = [pair for pair, own in zip(pairs, batch.src.tolist(), strict=True) if pair[0] != own]
        assert len(replaced) > 20
        assert all(pair in earlier and pair not in now for pair in replaced)
        assert np.array_equal(found.t, batch.t)


def test_drawing_for_a_batch_copies_nothing_of_the_whole_log():
    src, dst = np.random.default_rng(0).integers(0, 3_000, (2, 200_000))
    log = EventLog(src, dst + 3_000, np.arange(200_000))
    draw, batch = earlier_pairs(log), log[150_000:150_200]
    draw(batch, np.random.default_rng(0))
    tracemalloc.start()
    draw(batch, np.random.default_rng(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000  # the pool of destinations, rows and pairs are 24, 1,600 and 1,580 kB


def test_earlier_pairs_know_nothing_of_what_comes_later():
    """The same draw from a log whose future was scrambled."""
    log = small_log()
    batch = log[150:190]
    scrambled = EventLog(
        np.concatenate([log.src[:190], log.src[:189:-1]]), np.concatenate([log.dst[:190], log.dst[:189:-1]]), log.t
    )
    ours = earlier_pairs(log)(batch, np.random.default_rng(1))
    theirs = earlier_pairs(scrambled)(scrambled[150:190], np.random.default_rng(1))
    known = ours.src != batch.src
    assert np.array_equal(ours.src, theirs.src)
    assert np.array_equal(ours.dst[known], theirs.dst[known])


def test_training_with_every_addition_ends_with_finite_figures():
    settings = QUICK | {"epochs": 2, "negatives_per_event": 3, "schedule": "cosine"}
    model = PINT(dim=8, pair_history=True, historical=True)
    run = fit(model, small_log(600), **settings)
    assert 0 < run.test["all"]["ap"] <= 1


@pytest.mark.parametrize("bad", [{"negatives_per_event": 0}, {"weight_decay": -1.0}])
def test_numbers_that_make_no_sense_are_refused(bad):
    with pytest.raises(BadInput):
        Training(**bad)


def test_unknown_schedules_are_refused_with_a_near_miss():
    with pytest.raises(UnknownName, match="cosine"):
        Training(schedule="cosin")


def test_a_settings_file_says_everything_and_runs_without_later_settings_are_known_by_the_same():
    """The file makes the same run again; a run from before these settings keeps its fingerprint."""
    settings = Settings.of({"model": {"pair_history": False}, "train": {"schedule": "constant"}})
    settings = from_training(settings, small_log())
    assert from_training(Settings.of(tomllib.loads(settings.to_toml())), small_log()) == settings
    early = settings.to_toml(whole=False)
    assert "pair_history" not in early
    assert "schedule" not in early
    assert Settings.from_toml(early) == settings
