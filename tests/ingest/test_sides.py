"""Columns that name two kinds of nodes with ids in common are noticed."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest

from pintgn import Cleaning, read_events, simulate
from pintgn.errors import PintgnWarning
from pintgn.ingest.guess import kind_of


def notes(source, *arguments, **options) -> str:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", PintgnWarning)
        read_events(source, *arguments, **options)
    return " ".join(str(note.message) for note in found)


TWO_KINDS = "seem to name two kinds of things"


def table(src, dst, names=("src", "dst")):
    return {names[0]: src, names[1]: dst, "t": np.arange(len(src))}


@pytest.mark.parametrize(
    "names",
    [("user_id", "item_id"), ("customer", "product"), ("UserId", "movieId"), ("drug", "disease"), ("userid", "page")],
)
def test_names_of_different_kinds_with_ids_in_common_are_noticed(names):
    data = table([1, 2, 1, 3], [1, 1, 2, 4], names)
    note = notes(data, *names)
    assert note == (
        f"{names[0]!r} and {names[1]!r} seem to name two kinds of things, but share 2 ids, each of which counts as one "
        "node. If they are different, pass bipartite=True (--bipartite), else bipartite=False (--no-bipartite)."
    )
    for said in (True, False):
        assert notes(data, *names, bipartite=said) == ""
    assert notes(table([1, 2], [11, 12], names), *names) == ""
    assert notes(table(["a", "b"], ["a", "x"], names), *names).count(TWO_KINDS) == 1


@pytest.mark.parametrize(
    "names", [("src", "dst"), ("from_user", "to_user"), ("buyer", "seller"), ("sourcePage", "targetPage"), ("u", "i")]
)
def test_names_of_one_kind_say_nothing(names):
    assert notes(table([1, 2, 1, 3], [1, 1, 2, 4], names), *names) == ""


@pytest.mark.parametrize("seed", range(5))
def test_one_population_is_never_taken_for_two(seed):
    rng = np.random.default_rng(seed)
    n, e = 200, 4000
    anyone = rng.integers(0, n, e), rng.integers(0, n, e)
    assert notes(table(*anyone)) == ""
    everyone = np.concatenate([np.arange(n), anyone[0]])
    few = np.concatenate([np.arange(n), anyone[1]]) % 50
    answered = np.concatenate([everyone, few]), np.concatenate([few, everyone])  # those who are written to write back
    assert notes(table(*answered)) == ""
    newer, older = np.maximum(*anyone) + 1, np.minimum(*anyone)
    older = np.concatenate([np.arange(1, n), newer]), np.concatenate([np.arange(n - 1), older])
    assert notes(table(*older)) == ""  # citations: nothing is ever returned


@pytest.mark.parametrize(
    "name",
    [
        "uci",
        "enron",
        "bitcoin_otc",
        "digg_reply",
        "radoslaw_email",
        "uslegis",
        "yago",
        "as733_adddel",
        "dblp_snapshots",
    ],
)
def test_no_false_alarm_on_real_logs_of_one_kind(name, shared_data):
    assert notes(shared_data(name), cleaning=Cleaning(sort=True)) == ""
    assert notes(pq.read_table(shared_data(name)).slice(0, 5000), cleaning=Cleaning(sort=True)) == ""


def test_wikipedia_as_published_is_noticed_and_with_ids_of_its_own_is_not(shared_data):
    found = pq.read_table(shared_data("wikipedia"))
    src, dst, t = (found[name].to_numpy() for name in ("src", "dst", "t"))
    assert notes({"src": src, "dst": dst, "t": t}) == ""
    assert TWO_KINDS in notes({"user_id": src, "item_id": dst - 8227, "t": t}, "user_id", "item_id")
    assert notes({"user_id": src, "item_id": dst - 8227, "t": t}, "user_id", "item_id", bipartite=True) == ""


def test_simulated_worlds_say_nothing(tmp_path):
    for world in ("repeat", "twins", "shop"):
        table = simulate(world, events=500, seed=0).to_table()
        assert notes(table, *table.column_names[:3]) == ""


def test_kinds_are_found_in_names_of_any_style():
    for name in ("user", "user_id", "UserID", "userId", "users", "USER_ID", "the.user", "userid"):
        assert kind_of(name) == "user", name
