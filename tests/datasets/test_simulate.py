"""Simulated worlds: seeded, in order, and as predictable as they say - no more and no less."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pintgn.datasets.simulate import WORLDS, Repeat, Shop, Twins, make_world, simulate
from pintgn.datasets.worlds import expected_ap, rank_in_order
from pintgn.errors import BadInput, UnknownName

NAMES = sorted(WORLDS)
SMALL = {
    "repeat": {"nodes": 30, "window": 4},
    "twins": {"communities": 3, "roles": 6},
    "shop": {"users": 40, "items": 12, "genres": 3},
}


def ap(positive, negative, ties=0):
    """AP over all scores together; ties in a random order, or as sklearn has them with ties=None."""
    scores = np.concatenate([positive, negative])
    true = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
    if ties is not None:
        order = np.lexsort((np.random.default_rng(ties).random(len(scores)), scores))
        scores = np.empty(len(scores))
        scores[order] = np.arange(len(scores))
    return average_precision_score(true, scores)


def measured(world, log, seed=0, first=0):
    negative = world.negatives(log, seed)[first:]
    return ap(world.truth(log, first=first), world.truth(log, negative, first=first))


# -- every world -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("events", [1, 2, 999])
def test_a_world_has_the_events_asked_for_and_its_seed_decides_them(name, events):
    log = simulate(name, events=events, seed=3)
    assert len(log) == events
    assert log == simulate(name, events=events, seed=3)
    if events > 2:
        assert log != simulate(name, events=events, seed=4)


@pytest.mark.parametrize("name", NAMES)
def test_default_worlds_are_what_the_table_of_settings_says(name):
    world = WORLDS[name]()
    assert {key: default for key, (default, _) in world.settings().items()} == vars(world)
    assert all(doc for _, doc in world.settings().values())
    assert world.summary
    assert world.against
    assert make_world(name) == world
    assert make_world(world, **SMALL[name]) == make_world(name, **SMALL[name])


@pytest.mark.parametrize("name", NAMES)
def test_truth_ignores_what_comes_later(name):
    world = make_world(name, **SMALL[name])
    log = world.simulate(600, seed=1)
    wrong = world.negatives(log)
    for dst in (log.dst, wrong):
        assert np.array_equal(world.truth(log[:200], dst[:200]), world.truth(log, dst)[:200])
        assert np.array_equal(world.truth(log, dst[450:], first=450), world.truth(log, dst)[450:])


@pytest.mark.parametrize("name", ["repeat", "shop"])
def test_truth_is_a_probability_over_destinations(name):
    world = make_world(name, **SMALL[name])
    log = world.simulate(300, seed=2)
    anyone = np.arange(world.nodes) if name == "repeat" else world.users + np.arange(world.items)
    total = sum(
        world.truth(log, np.full(len(log), node)) * (node != log.src if name == "repeat" else 1) for node in anyone
    )
    assert total == pytest.approx(np.ones(len(log)))


@pytest.mark.parametrize("name", NAMES)
def test_negatives_are_seeded_and_another_seed_gives_others(name):
    world = WORLDS[name]()
    log = world.simulate(500)
    assert np.array_equal(world.negatives(log, 1), world.negatives(log, 1))
    assert not np.array_equal(world.negatives(log, 1), world.negatives(log, 2))


@pytest.mark.parametrize(
    ("settings", "first", "tolerance"),
    [
        ({"world": "repeat"}, 0, 0.006),
        ({"world": "repeat", "repeat": 0.5, "nodes": 200}, 0, 0.01),
        ({"world": "repeat", "repeat": 1.0, "window": 3}, 20_000, 0.006),
        ({"world": "repeat", "repeat": 0.0, "nodes": 20}, 0, 0.01),
        ({"world": "twins"}, 0, 0.001),
        ({"world": "twins", "communities": 100, "roles": 30}, 0, 0.01),
    ],
)
def test_the_ideal_scorer_reaches_the_stated_ap(settings, first, tolerance):
    world = make_world(**settings)
    for seed in range(3):
        log = world.simulate(40_000, seed)
        assert measured(world, log, seed, first) == pytest.approx(world.best_ap(log, first), abs=tolerance)


def test_heuristics_do_not_beat_the_ideal_scorer():
    world = Repeat(nodes=200)
    log = world.simulate(20_000, seed=5)
    best = world.best_ap(log)
    wrong = world.negatives(log)
    count: dict = {}
    met, last = np.zeros((2, len(log))), np.zeros((2, len(log)))
    for row, (u, v, w) in enumerate(zip(log.src.tolist(), log.dst.tolist(), wrong.tolist(), strict=True)):
        for side, node in enumerate((v, w)):
            met[side, row], last[side, row] = count.get((u, node), (0, -1))
        count[u, v] = (count.get((u, v), (0, -1))[0] + 1, row)
    assert 0.8 < ap(*met) < best
    assert 0.8 < ap(*last) < best
    assert ap(*np.random.default_rng(0).random((2, len(log)))) == pytest.approx(0.5, abs=0.01)


# -- the formula -------------------------------------------------------------------------------------------


def test_expected_ap_is_the_mean_ap_of_random_draws():
    positive, negative = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])
    rng = np.random.default_rng(0)
    draws = []
    for seed in range(20):
        scores = [-rng.choice(3, size=20_000, p=share) for share in (positive, negative)]
        draws.append(ap(*scores, ties=1000 + seed))
    assert expected_ap(positive, negative) == pytest.approx(np.mean(draws), abs=0.001)


def test_expected_ap_by_hand():
    # all evidence or none
    assert expected_ap(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1
    assert expected_ap(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == 1
    assert expected_ap(np.array([1.0]), np.array([1.0])) == 0.5
    # 80 % of the positives stand out, the rest are mixed with the negatives. In that group precision is
    # (0.8 + 0.2 x) / (0.8 + 1.2 x); its integral is 0.2/1.2 + (0.8 - 0.8 * 0.2/1.2) / 1.2 * ln(2 / 0.8)
    rest = 0.2 / 1.2 + (0.8 - 0.8 * 0.2 / 1.2) / 1.2 * np.log(2 / 0.8)
    assert expected_ap(np.array([0.8, 0.2]), np.array([0.0, 1.0])) == pytest.approx(0.8 + 0.2 * rest)
    # cutting a group into parts of the same ratio changes nothing, in whatever order they come
    whole = expected_ap(np.array([0.7, 0.3]), np.array([0.2, 0.8]))
    parts = expected_ap(np.array([0.1, 0.35, 0.2, 0.35]), np.array([0.8 / 3, 0.1, 1.6 / 3, 0.1]))
    assert parts == pytest.approx(whole)


def test_rank_in_order_counts_equal_values_before():
    assert rank_in_order(np.array([3, 3, 3, 5, 8, 8])).tolist() == [0, 1, 2, 0, 0, 1]
    assert rank_in_order(np.array([], int)).tolist() == []


# -- repeat ------------------------------------------------------------------------------------------------


def test_truth_of_repeat_follows_the_definition():
    world = Repeat(nodes=12, repeat=0.7, window=3)
    log = world.simulate(300, seed=1)
    wrong = world.negatives(log)
    assert (log.dst != log.src).all()
    assert (wrong != log.src).all()
    weights = np.array([1, 1 / 2, 1 / 3]) / (1 + 1 / 2 + 1 / 3)
    for dst in (log.dst, wrong):
        scores = world.truth(log, dst)
        for row in range(len(log)):
            past = [log.dst[i] for i in range(row) if log.src[i] == log.src[row]][::-1][:3]
            copied = 0.7 * sum(w for w, v in zip(weights, past, strict=False) if v == dst[row])
            fresh = 1 - 0.7 * weights[: len(past)].sum()
            assert scores[row] == pytest.approx(copied + fresh / 11)


def test_repeat_repeats_as_often_as_it_says():
    """A calibrated truth: events that are said to happen with probability p happen in a share p of cases."""
    world = Repeat(nodes=50, repeat=0.6, window=5)
    log = world.simulate(60_000, seed=7)
    for node in (3, 17):
        chance = world.truth(log, np.full(len(log), node))
        happened = log.dst == node
        for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1.0)):
            rows = (chance >= low) & (chance < high) & (log.src != node)
            error = 4 * np.sqrt(chance[rows].mean() / rows.sum())
            assert happened[rows].mean() == pytest.approx(chance[rows].mean(), abs=error)


def test_a_copy_of_a_copy_goes_where_the_original_went():
    log = Repeat(nodes=5, repeat=1.0, window=1).simulate(400, seed=0)
    for node in range(5):
        assert len(set(log.dst[log.src == node].tolist())) == 1


# -- twins -------------------------------------------------------------------------------------------------


def anonymous_colors(log, layers=3):
    """What the most expressive anonymous MP-TGN knows of each node just before each time: colour by (node, time).

    Paper, Eqs. 1-2 with injective maps: the colour of v at t hashes its colour one layer below and the multiset of
    (colour of u at t', t') over its events before t. Nodes start out alike. Slow and plain on purpose.
    """
    events = {}
    for u, v, t in zip(log.src.tolist(), log.dst.tolist(), log.t.tolist(), strict=True):
        events.setdefault(u, []).append((v, t))
        events.setdefault(v, []).append((u, t))
    known: dict = {}

    def color(v, t, layer):
        if layer == 0:
            return 0
        key = (v, t, layer)
        if key not in known:
            below = [(color(u, s, layer - 1), s) for u, s in events.get(v, []) if s < t]
            known[key] = hash((color(v, t, layer - 1), tuple(sorted(below))))
        return known[key]

    return lambda v, t: color(v, t, layers)


def test_twins_are_isomorphic_at_every_time():
    world = Twins(communities=4, roles=5)
    log = world.simulate(203, seed=1)  # the last group is cut short
    color = anonymous_colors(log)
    for t in np.unique(log.t)[::5].tolist():
        for role in range(5):
            assert len({color(c * 5 + role, t) for c in range(4)}) == 1
    times = np.unique(log.t)
    assert len({color(role, times[-1]) for role in range(5)}) == 5  # but roles can be told apart


def test_without_positions_twins_are_exactly_at_chance():
    world = Twins(communities=4, roles=5)
    log = world.simulate(300, seed=1)
    color = anonymous_colors(log)
    wrong = world.negatives(log, seed=9)

    def score(u, v, t):
        return hash((color(u, t), color(v, t)))  # any function of the two embeddings

    rows = list(zip(log.src.tolist(), log.dst.tolist(), wrong.tolist(), log.t.tolist(), strict=True))
    right = [score(u, v, t) for u, v, _, t in rows]
    other = [score(u, w, t) for u, _, w, t in rows]
    assert right == other
    assert ap(right, other, ties=None) == 0.5


def test_with_positions_twins_are_certain_once_connected():
    world = Twins()
    log = world.simulate(20_000, seed=3)
    assert world.best_ap(log, first=14_000) == 1
    assert measured(world, log, first=14_000) == 1
    assert world.best_ap(log[:40]) < 1
    # each coin toss joins two parts of every community, so there are roles - 1 of them in each
    assert (world.truth(log) == 0).sum() == (world.roles - 1) * world.communities


def test_two_nodes_count_as_joined_only_after_a_path_of_earlier_events():
    world = Twins(communities=3, roles=6)
    log = world.simulate(120, seed=2)
    wrong = world.negatives(log)
    right, other = world.truth(log), world.truth(log, wrong)
    for row in range(len(log)):
        reached = {int(log.src[row])}
        earlier = [(int(u), int(v)) for u, v, t in zip(log.src, log.dst, log.t, strict=True) if t < log.t[row]]
        for _ in earlier:
            reached |= {b for pair in earlier for a, b in (pair, pair[::-1]) if a in reached}
        assert right[row] == (log.dst[row] in reached)
        assert other[row] == (wrong[row] in reached) == 0
    assert 0 < right.mean() < 1


def test_the_wrong_twin_has_the_same_role_in_another_community():
    world = Twins(communities=3, roles=4)
    log = world.simulate(500)
    wrong = world.negatives(log)
    assert np.array_equal(wrong % 4, log.dst % 4)
    assert (wrong // 4 != log.dst // 4).all()
    assert np.array_equal(log.src // 4, log.dst // 4)
    assert log.id(5) == "c1r1"


def test_all_communities_act_at_the_same_time_and_nobody_twice():
    world = Twins(communities=7, roles=5)
    log = world.simulate(700)
    sizes = np.diff(np.append(log.group_starts, len(log)))
    assert (sizes == 7).all()
    for start in log.group_starts:
        group = log[start : start + 7]
        assert len(set(group.src.tolist() + group.dst.tolist())) == 14
        assert len({(u % 5, v % 5) for u, v in zip(group.src, group.dst, strict=True)}) == 1


# -- shop --------------------------------------------------------------------------------------------------


def test_knowing_every_taste_reaches_the_bound_and_guessing_it_comes_close():
    world = Shop(users=300)
    log = world.simulate(60_000, seed=1)
    wrong = world.negatives(log, seed=2)
    told = ap(*((dst - world.users) % world.genres == log.label for dst in (log.dst, wrong)))
    bound = world.best_ap(log)
    guessed = measured(world, log, seed=2)
    assert told == pytest.approx(bound, abs=0.004)
    assert bound - 0.02 < guessed < bound


def test_without_drift_guessing_becomes_knowing():
    world = Shop(users=20, drift=0.0)
    log = world.simulate(20_000, seed=0)
    assert measured(world, log, first=10_000) == pytest.approx(world.best_ap(log), abs=0.01)


def test_truth_of_shop_is_the_exact_filter():
    """Against the sum over every possible history of tastes."""
    world = Shop(users=2, items=6, genres=3, loyalty=0.7, drift=0.2)
    log = world.simulate(12, seed=4)
    scores = world.truth(log)

    def emit(taste, item):
        return 0.7 * (item % 3 == taste) / 2 + 0.3 / 6

    for row in range(len(log)):
        past = [int(log.dst[i]) - 2 for i in range(row) if log.src[i] == log.src[row]]
        paths = {(g,): 1 / 3 for g in range(3)}
        for item in past:
            paths = {
                (*path, g): weight * emit(path[-1], item) * (0.8 if g == path[-1] else 0.1)
                for path, weight in paths.items()
                for g in range(3)
            }
        total = sum(paths.values())
        wanted = int(log.dst[row]) - 2
        assert scores[row] == pytest.approx(sum(w * emit(p[-1], wanted) for p, w in paths.items()) / total)


def test_new_users_arrive_all_the_time_and_tastes_drift():
    world = Shop(users=100, drift=0.05)
    log = world.simulate(5000, seed=1)
    stats = log.statistics()
    assert stats.bipartite
    assert stats.sources == 100
    first_seen = np.array([np.flatnonzero(log.src == user)[0] for user in range(100)])
    assert (np.diff(first_seen[20:]) > 0).all()
    assert first_seen[20:].max() > 4900
    train, _, test = log.split()
    assert len(np.setdiff1d(test.src, train.src)) > 10
    for user in range(3):
        assert len(set(log.label[log.src == user].tolist())) > 2
    changes = [np.diff(log.label[log.src == user]) != 0 for user in range(100)]
    assert np.concatenate(changes).mean() == pytest.approx(0.05, abs=0.01)
    assert log.id(0) == "user0"
    assert log.id(100) == "item0"
    assert "2024-01-01" in repr(log)


def test_a_shop_may_have_more_users_than_events():
    assert len(Shop(users=50).simulate(7)) == 7


# -- bad settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulate("twin"), "there is no world 'twin'. Did you mean 'twins'"),
        (lambda: simulate("twins", role=3), "twins has no setting 'role'. Did you mean 'roles'"),
        (lambda: simulate("shop", items=7), "items=7 is not a multiple of genres=10"),
        (lambda: simulate("repeat", repeat=1.5), "repeat=1.5; a share between 0 and 1"),
        (lambda: simulate("repeat", repeat="often"), "repeat='often'; a share"),
        (lambda: simulate("twins", communities=1), "communities=1; a whole number of at least 2"),
        (lambda: simulate("repeat", events=0), "events=0; a log of at least one event"),
        (lambda: simulate("repeat", seed=-1), "seed=-1; a whole number"),
    ],
)
def test_bad_settings_say_what_is_allowed(make, message):
    with pytest.raises(BadInput, match=message):
        make()


def test_a_world_only_judges_its_own_whole_logs():
    world = Twins()
    log = world.simulate(1000)
    with pytest.raises(BadInput, match="cut off at event 700; pass the whole log and first=700"):
        world.truth(log[700:])
    with pytest.raises(BadInput, match="not numbered as in this world"):
        Twins(communities=7).best_ap(log)
    with pytest.raises(BadInput, match="dst has shape"):
        world.truth(log, [1, 2])
    with pytest.raises(BadInput, match="first=1000"):
        world.best_ap(log, first=1000)
    with pytest.raises(UnknownName):
        make_world(world, rolls=3)
