"""What happened by relation, as of any time: compared with counting through a list."""

import numpy as np
import pytest

from pintgn.neighbors.relations import LEVELS, RelationIndex, RelationsWithout

KINDS = 3


def random_events(seed, dtype=np.int64, events=150, nodes=7):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, events), rng.integers(0, nodes, events)
    loops = rng.random(events) < 0.1
    dst[loops] = src[loops]
    t = np.sort(rng.integers(0, events // 4, events)).astype(dtype)
    return src, rng.integers(0, KINDS, events), dst, t * (dtype(0.5) if dtype is np.float64 else 1)


def slow(src, relation, dst, t, u, r, v, at):
    """Counts, ages, events at the newest moment and distinct others, by `LEVELS`, by going through all events."""
    back, plain = r >= KINDS, r % KINDS
    first, second = (v, u) if back else (u, v)
    past = [e for e in zip(src, relation, dst, t, strict=True) if e[3] < at and e[1] == plain]
    near, far = (2, 0) if back else (0, 2)
    chosen = [
        [e for e in past if e[0] == first and e[2] == second],
        [e for e in past if e[near] == u],
        [e for e in past if e[far] == v],
        past,
    ]
    rows = []
    for k, some in enumerate(chosen):
        last = max((e[3] for e in some), default=at)
        triples = {(e[0], e[2]) for e in some}
        rows.append((len(some), at - last, sum(e[3] == last for e in some) if some else 0, len(triples) if k else 0))
    return np.array(rows, float)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_relations_are_counted_as_of_any_time(seed, dtype):
    src, relation, dst, t = random_events(seed, dtype)
    index, cut = RelationIndex(KINDS, np.dtype(dtype)), len(src) // 2
    for part in (slice(0, cut), slice(cut, cut), slice(cut, None)):  # a cut through simultaneous events, and nothing
        index.add(src[part], relation[part], dst[part], t[part])
    rng = np.random.default_rng(seed + 10)
    u, v, r = rng.integers(0, 9, 60), rng.integers(0, 9, 60), rng.integers(0, 2 * KINDS, 60)
    at = rng.choice(np.append(t, t[-1] + 1), 60)
    order = np.lexsort((at, r, u))  # rows that share an end follow each other
    u, r, v, at = u[order], r[order], v[order], at[order]
    found = index.look_up(u, r, v, at)
    expected = np.array([slow(src, relation, dst, t, *one) for one in zip(u, r, v, at, strict=True)])
    for k, name in enumerate(("count", "dt", "newest", "partners")):
        assert getattr(found, name).shape == (60, len(LEVELS))
        assert (getattr(found, name) == expected[:, :, k]).all(), name


def test_a_self_loop_counts_once_for_its_triple_and_for_its_node_at_either_end():
    """Node 4 loops twice at 10 and once at 20, and writes to 5 at 20."""
    index = RelationIndex(KINDS, np.dtype(np.int64))
    events = np.array([4, 4, 4, 4]), np.array([1, 1, 1, 1]), np.array([4, 4, 4, 5]), np.array([10, 10, 20, 20])
    index.add(*events)
    asked = np.array([(4, 1, 4, 20), (4, 1, 4, 21), (4, 1 + KINDS, 4, 21), (6, 1, 4, 21), (4, 1, 5, 21)]).T
    found = index.look_up(*(column.copy() for column in asked))
    assert found.count.tolist() == [[2, 2, 2, 2], [3, 4, 3, 4], [3, 3, 4, 4], [0, 0, 3, 4], [1, 4, 1, 4]]
    for row in range(asked.shape[1]):
        assert found.count[row].tolist() == slow(*events, *asked[:, row])[:, 0].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_a_question_without_some_events_is_that_to_an_index_which_never_had_them(seed):
    src, relation, dst, t = random_events(seed, (np.int64, np.float64)[seed % 2])
    rng = np.random.default_rng(seed + 20)
    whole = RelationIndex(KINDS, t.dtype)
    whole.add(src, relation, dst, t)
    for share in (0.0, 0.1, 0.6, 1.0):
        gone = rng.random(len(src)) < share
        rest = RelationIndex(KINDS, t.dtype)
        rest.add(src[~gone], relation[~gone], dst[~gone], t[~gone])
        without = RelationsWithout(whole, src[gone], relation[gone], dst[gone], t[gone])
        for _ in range(20):
            row = int(rng.integers(len(src)))
            u, v, r, at = src[row], dst[row], relation[row], rng.choice(np.append(t[t > t[0]], t[-1] + 1))
            u, r, v = (v, r + KINDS, u) if rng.random() < 0.5 else (u, r, v)
            asked = [np.full(3, one) for one in (u, r, v, at)]
            found, expected = without.look_up(*asked), rest.look_up(*asked)
            assert all((getattr(found, name) == getattr(expected, name)).all() for name in vars(expected))


def test_what_comes_later_changes_no_answer():
    src, relation, dst, t = random_events(4)
    at, index = t[80], RelationIndex(KINDS, t.dtype)
    before = t < at
    index.add(src[before], relation[before], dst[before], t[before])
    asked = src, relation + KINDS * (src > 3), dst, np.full(len(src), at)
    known = index.look_up(*asked)
    fork = index.fork()
    index.add(src[~before], relation[~before], dst[~before], t[~before])
    for other in (index, fork, RelationIndex.of_arrays(KINDS, index.arrays())):
        again = other.look_up(*asked)
        assert all((getattr(known, name) == getattr(again, name)).all() for name in vars(known))
    assert RelationIndex.of_arrays(KINDS, index.arrays()).used == index.used


def test_an_index_that_was_read_goes_on():
    src, relation, dst, t = random_events(5)
    whole, part = RelationIndex(KINDS, t.dtype), RelationIndex(KINDS, t.dtype)
    whole.add(src, relation, dst, t)
    part.add(src[:70], relation[:70], dst[:70], t[:70])
    part = RelationIndex.of_arrays(KINDS, part.arrays())
    part.add(src[70:], relation[70:], dst[70:], t[70:])
    asked = src, relation, dst, np.full(len(src), t[-1] + 1)
    assert (whole.look_up(*asked).count == part.look_up(*asked).count).all()
    assert part.nbytes > 0
