"""Explanations are true: the walks are all there, and "without" is what a replay without those events gives."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch

import pintgn
from pintgn import PINT, EventLog, Query, Stream, fit, read_events
from pintgn.cli.app import main
from pintgn.errors import BadInput, StaleQuery
from pintgn.explain import explain
from pintgn.explain.counterfactuals import Absence, Frozen, WalkCounts, answers
from pintgn.explain.walk_paths import Contacts, paths_of_three, paths_of_two
from pintgn.models.registry import MODELS, model_class
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning

LINKS = [name for name in MODELS if name != "ctdne"]
FORGETFUL = [name for name in LINKS if name not in ("tgn", "jodie", "dyrep")]
SMALL = {"dim": 8, "layers": 1, "neighbors": 3, "positions": 4, "memory": 4, "walks": 4, "length": 2}


def make(name, **more):
    known = model_class(name)().settings()
    return model_class(name)(**{key: value for key, value in (SMALL | more).items() if key in known})


def stream_of(model, log, rows=None, **more) -> Stream:
    """A stream that has observed the log, or some rows of it."""
    stream = Stream(model, log.schema, **more)
    model.eval()
    keep = np.arange(len(log)) if rows is None else rows
    with torch.no_grad():
        stream.observe(EventLog(log.src[keep], log.dst[keep], log.t[keep], schema=log.schema))
    return stream


def walks_between(log, root, target, at, steps, absent=()):
    """Every walk from the root back to the target, as tuples of event numbers: the definition, literally."""
    found = []

    def go(node, before, taken):
        if len(taken) == steps:
            if node == target:
                found.append(tuple(taken))
            return
        for number in range(len(log)):
            if log.t[number] < before and number not in absent:
                ends = {int(log.src[number]), int(log.dst[number])}
                if node in ends:
                    other = (ends - {node}).pop() if len(ends) == 2 else node
                    go(other, log.t[number], [*taken, number])

    go(root, at, [])
    return found


def scores(frozen, src, dst, at, absences):  # (1 + absences,)
    """The logit of a link, and under each absence."""
    asked = Query(np.array([src]), np.array([dst]), np.array([at], frozen.stream.time_dtype))
    return frozen.stream.model.answer(answers(frozen, asked, absences), "anyone").ravel()


# -- walks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_every_walk_is_counted_in_every_world(seed):
    log = random_log(40, 6, seed=seed)
    frozen = Frozen.of(stream_of(PINT(dim=4, positions=4), log), at := int(log.t[-1]) + 1)
    rng = np.random.default_rng(seed)
    gone = [np.sort(rng.choice(len(log), size, replace=False)) for size in (1, 5, 20)]
    absences = [Absence(events, np.unique([log.src[events], log.dst[events]])) for events in gone]
    walks = WalkCounts(frozen, frozen.before(at), 4, np.arange(6), absences)
    for root, node in itertools.product(range(0, 6, 2), range(6)):
        for world, absent in enumerate([[], *gone]):
            expected = [len(walks_between(log, root, node, at, k, set(map(int, absent)))) for k in range(4)]
            assert walks.read(root, np.array([node]), world)[0].tolist() == expected


@pytest.mark.parametrize("seed", range(4))
def test_paths_hold_every_walk_once_and_name_the_newest_one(seed):
    log = random_log(36, 7, seed=seed)
    index = stream_of(model_class("heuristic")(), log).index
    at = int(log.t[-1]) + 1
    for root, target in [(0, 1), (2, 5), (3, 3)]:
        one, other = (Contacts.of(index, node, at) for node in (root, target))
        for steps, paths in ((2, paths_of_two(one, other)), (3, paths_of_three(index, one, other))):
            walks = walks_between(log, root, target, at, steps)
            assert paths.walks.sum() == len(walks)
            for row in range(len(paths.walks)):
                path = paths.path(row)
                along = [walk for walk in walks if nodes_of(log, root, walk) == path.nodes]
                assert path.walks == len(along)
                assert set(path.absence.events.tolist()) == set(itertools.chain(*along))
                newest = max(tuple(log.t[list(walk)].tolist()) for walk in along)
                assert tuple(step.t for step in path.newest) == newest
                assert paths.last[row] == newest[0]


def nodes_of(log, root, walk):
    nodes = [root]
    for number in walk:
        ends = (int(log.src[number]), int(log.dst[number]))
        nodes.append(ends[1] if nodes[-1] == ends[0] else ends[0])
    return tuple(nodes)


# -- the score without -----------------------------------------------------------------------------------------------


def replayed_without(model, log, absence, query, **more) -> float:
    rows = np.setdiff1d(np.arange(len(log)), absence.events)
    with torch.no_grad():
        return stream_of(model, log, rows, **more).score(query).item()


VARIANTS = [(name, {}) for name in FORGETFUL] + [
    ("pint", {"layers": 2, "positions_at": "every"}),
    ("pint", {"positions": 0}),
    ("pint", {"pair_history": True, "historical": True}),
    ("pint", {"pair_history": True, "aggregates": True}),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=str)
@pytest.mark.parametrize("features", [0, 2])
def test_without_equals_a_replay_of_the_log_without_those_events(name, settings, features):
    log = random_log(120, 9, seed=2)
    features = np.random.default_rng(0).normal(size=(120, features)).astype(np.float32) if features else None
    log = EventLog(log.src, log.dst, log.t, features=features)
    model = make(name, memory=0, seed=0, **settings)
    model.prepare(log)

    def observed(rows):
        stream = Stream(model, log.schema)
        part = None if log.features is None else log.features[rows]
        with torch.no_grad():
            stream.observe(EventLog(log.src[rows], log.dst[rows], log.t[rows], features=part, schema=log.schema))
        return stream

    stream, at = observed(np.arange(120)), int(log.t[-1]) + 1
    model.eval()
    src, dst = int(log.src[-1]), int(log.dst[-2])
    near = Contacts.of(stream.index, src, at)
    frozen = Frozen.of(stream, at)
    absences = [near.absence(int(near.nodes[0])), Absence(np.array([119]), np.array([log.src[119], log.dst[119]]))]
    absences += [path.absence for path in paths_of_two(near, Contacts.of(stream.index, dst, at)).best(2)]
    query = Query(np.array([src]), np.array([dst]), np.array([at]))
    with torch.no_grad():
        expected = [stream.score(query).item()]
        for absence in absences:
            expected.append(observed(np.setdiff1d(np.arange(120), absence.events)).score(query).item())
    assert scores(frozen, src, dst, at, absences) == pytest.approx(expected, abs=1e-4)
    with torch.no_grad():
        assert stream.score(query).item() == expected[0], "explaining changes nothing"


@pytest.mark.parametrize("transform", ["l1", "rate"])
def test_without_is_exact_whatever_the_transform(transform):
    log = random_log(90, 8, seed=5)
    model = PINT(dim=8, neighbors=3, positions=3, positions_transform=transform, time_unit=1.0)
    stream, at = stream_of(model, log), int(log.t[-1]) + 1
    absence = Contacts.of(stream.index, 1, at).absence(2)
    query = Query(np.array([1]), np.array([3]), np.array([at]))
    found = scores(Frozen.of(stream, at), 1, 3, at, [absence])
    assert found[1] == pytest.approx(replayed_without(model, log, absence, query), rel=1e-5)


def test_estimated_positions_lose_the_walks_that_are_left_out():
    log = random_log(90, 8, seed=5)
    model = PINT(dim=8, neighbors=3, positions=3)
    stream, at = stream_of(model, log, positions_backend="sketch"), int(log.t[-1]) + 1
    absence = Contacts.of(stream.index, 1, at).absence(2)
    query = Query(np.array([1]), np.array([3]), np.array([at]))
    found = scores(Frozen.of(stream, at), 1, 3, at, [absence])
    with torch.no_grad():
        assert found[0] == pytest.approx(stream.score(query).item(), abs=1e-4)
    exact = stream_of(model, log)
    truth = scores(Frozen.of(exact, at), 1, 3, at, [absence])
    assert abs((found[1] - found[0]) - (truth[1] - truth[0])) < 0.5 * abs(truth[1] - truth[0]) + 0.05


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("open_group", [False, True])
@pytest.mark.parametrize("refresh", ["event", "block"])
def test_the_score_explained_is_the_score_given(name, open_group, refresh):
    log = random_log(130, 9, seed=3)
    stream = stream_of(make(name), log, memory_block=40, positions_refresh=refresh)
    at = int(log.t[-1]) + (0 if open_group else 1)
    for src, dst in [(0, 1), (4, 4), (2, 50)]:
        found = explain(stream, src, dst, at)
        with torch.no_grad():
            expected = stream.score(Query(np.array([src]), np.array([dst]), np.array([at]))).item()
        assert found.logit == pytest.approx(expected, abs=1e-4)
        assert all(np.isfinite(r.without.logit) for r in (*found.reasons, *found.neighbors))
    by_block = refresh == "block" and stream.positions is not None
    assert found.exact is not (stream.model.remembers or by_block)


def test_a_trimmed_stream_is_explained_by_what_it_remembers():
    log = random_log(150, 9, seed=3)
    stream = stream_of(PINT(dim=8, neighbors=3, positions=3), log)
    stream.index.trim(keep_last=6)
    at = int(log.t[-1]) + 1
    found = explain(stream, 0, 1, at)
    with torch.no_grad():
        query = Query(np.array([0]), np.array([1]), np.array([at]))
        assert found.logit == pytest.approx(stream.score(query).item(), abs=1e-4)
    assert found.reasons
    assert not found.exact
    assert "still knows" in found.note
    assert all(np.isfinite(reason.without.logit) for reason in found.reasons)


# -- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pint", "tgn", "heuristic"])
def test_events_at_the_time_of_the_question_do_not_matter(name):
    log = random_log(100, 8, seed=4)
    at = int(log.t[-1]) + 5
    rng = np.random.default_rng(0)
    told = []
    for _ in range(2):  # two futures
        stream = stream_of(make(name), log)
        src, dst = rng.integers(0, 8, (2, 12))
        stream.observe(EventLog(src, dst, np.full(12, at), schema=log.schema))
        told.append(json.dumps(explain(stream, 0, 1, at).as_dict()))
    assert told[0] == told[1]


def test_a_question_about_the_past_is_refused():
    log = random_log(50, 8)
    stream = stream_of(PINT(dim=4), log)
    with pytest.raises(StaleQuery):
        explain(stream, 0, 1, int(log.t[-1]) - 1)
    for wrong in ({"steps": 4}, {"limit": 0}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            explain(stream, 0, 1, int(log.t[-1]) + 1, **wrong)


def test_what_happens_meanwhile_does_not_reach_an_explanation():
    log = random_log(200, 9, seed=1)
    stream = stream_of(make("tgn"), log)
    at = int(log.t[-1]) + 1
    before = explain(stream, 0, 1, at)
    frozen = Frozen.of(stream, at)
    with torch.no_grad():
        for step in range(300):
            stream.observe(EventLog(np.array([0]), np.array([1]), np.array([at + step]), schema=log.schema))
    assert explain(frozen, 0, 1, at) == before


# -- in users' words -------------------------------------------------------------------------------------------------

NOON = 1_700_000_000


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    rng = np.random.default_rng(0)
    names = np.array(["ann", "bob", "cay", "dan", "eve", "fay", "gus", "hal"])
    when = np.datetime64(NOON - 50_000, "s") + np.sort(rng.integers(0, 40_000, 300))
    source = {"src": names[rng.integers(0, 8, 300)], "dst": names[rng.integers(0, 8, 300)], "t": when}
    folder = tmp_path_factory.mktemp("explained") / "run"
    fit(PINT(dim=8, neighbors=4), read_events(source), folder=folder, **QUICK)
    return pintgn.open(folder)


def opened(live):
    return pintgn.open(live.run)


def test_a_walk_is_told_in_words_with_times(live):
    live = opened(live)
    live.observe([("max", "moritz", NOON - 7_200), ("bolte", "max", NOON - 3_600), ("bolte", "max", NOON - 300)])
    found = live.explain("bolte", "moritz", at=NOON)
    assert found.summary == ("moritz is reached from bolte by 2 walks of 2 steps, the last 5 minutes ago.",)
    (reason,) = found.reasons
    assert reason.text == "bolte met max 5 minutes ago; max met moritz 2 hours ago (2 such walks)"
    assert (reason.kind, reason.of, reason.steps, reason.walks, reason.left_out) == ("walks", "src", 2, 2, 3)
    assert reason.nodes == ("bolte", "max", "moritz")
    assert [contact.when for contact in reason.contacts] == ["2023-11-14 22:08:20", "2023-11-14 20:13:20"]
    assert found.reached == {"src": (0, 2, 0), "dst": (0, 0, 0)}
    assert found.connected
    back = live.explain("moritz", "bolte", at=NOON)
    assert (back.reasons[0].of, back.reached) == ("dst", {"src": (0, 0, 0), "dst": (0, 2, 0)})


def test_direct_contacts_come_first_with_the_score_without_each(live):
    live = opened(live)
    for minute in (50, 30, 5):
        live.observe([("zoe", "yan", NOON - 60 * minute)])
    found = live.explain("zoe", "yan", at=NOON)
    assert found.summary[0] == "zoe met yan 3 times, the last 5 minutes ago."
    assert [reason.kind for reason in found.reasons[:4]] == ["contacts", "contact", "contact", "contact"]
    assert found.reasons[1].text == "zoe met yan at 2023-11-14 22:08:20, 5 minutes ago"
    never = opened(live).score("zoe", "yan", at=NOON)["yan"]
    assert found.reasons[0].without.logit == pytest.approx(never, abs=1e-4), "as if they had never met"
    assert found.logit == pytest.approx(live.score("zoe", "yan", at=NOON)["yan"], abs=1e-4)
    assert found.reasons[0].without.adds == pytest.approx(found.logit - never, abs=1e-4)
    assert found.probability == pytest.approx(live.probability("zoe", "yan", at=NOON)["yan"], abs=1e-4)


def test_no_connection_explains_itself(live):
    found = opened(live).explain("nobody", "ann", at=NOON)
    assert not found.connected
    assert found.reasons == ()
    assert found.summary[0].startswith("No walk of up to 3 steps joins nobody and ann")
    assert found.summary[1] == "nobody has no contacts before 2023-11-14 22:13:20."
    assert {reason.of for reason in found.neighbors} == {"dst"}
    both = opened(live).explain("nobody", "nobody", at=NOON)
    assert not both.connected


def test_the_most_important_neighbors_come_first(live):
    found = live.explain("ann", "bob", limit=2)
    mine = [reason for reason in found.neighbors if reason.of == "src"]
    assert len(mine) == 2
    effects = [abs(reason.without.adds) for reason in mine]
    assert effects == sorted(effects, reverse=True)
    assert "bob" not in [reason.nodes[1] for reason in mine]


def test_an_explanation_is_plain_json(live):
    found = live.explain("ann", "bob")
    told = json.loads(json.dumps(found.as_dict()))
    assert told["src"] == "ann"
    assert told["reasons"][0]["steps"] == 1
    assert told["connected"] is True
    assert set(told["reasons"][0]["without"]) == {"logit", "probability", "adds", "said", "value"}
    assert told["reasons"][0]["text"] == found.reasons[0].text
    assert [one["text"] for one in told["main"]] == [one.text for one in found.main]
    assert told["sentences"] == list(found.sentences)
    assert "logit without" in found.details()


def test_three_sentences_come_first_largest_effect_first_and_none_tells_the_same(live):
    live = opened(live)
    for minute in (50, 30, 5):
        live.observe([("zoe", "yan", NOON - 60 * minute)])
    live.observe([("zoe", "ann", NOON - 200), ("yan", "ann", NOON - 100)])
    found = live.explain("zoe", "yan", at=NOON)
    effects = [abs(reason.without.adds) for reason in found.by_effect]
    assert effects == sorted(effects, reverse=True)
    assert len(found.by_effect) == len(found.reasons) + len(found.neighbors)
    assert found.main[0] == found.by_effect[0]
    about = [frozenset(reason.nodes) - {"zoe", "yan"} for reason in found.main]
    assert all(not (a & b) and (a or b) for a, b in itertools.combinations(about, 2))
    first = found.main[0]
    assert found.sentences[0].startswith(first.text)
    assert found.sentences[0].endswith(f": {first.without.probability:.4f}.")
    shown = str(found)
    assert shown.startswith("zoe and yan at 2023-11-14 22:13:20: probability ")
    assert "against one random destination" in shown.splitlines()[0]
    assert f"  1. {found.sentences[0]}" in shown
    assert "logit without" not in shown


def test_where_nothing_joins_them_the_sentences_say_so(live):
    found = opened(live).explain("nobody", "noone", at=NOON)
    assert found.main == ()
    assert found.sentences == found.summary
    assert "more reason" not in str(found)


def test_an_explanation_is_a_frame_and_a_folded_table_in_a_notebook(live):
    found = live.explain("ann", "bob")
    frame = found.to_pandas()
    assert frame["reason"].tolist() == [reason.text for reason in found.by_effect]
    assert frame["adds"].iloc[0] == found.by_effect[0].without.adds
    html = found._repr_html_()
    assert html.count("<li>") == 3
    assert repr(found).startswith("Explanation(ann and bob at 2023-11-14 19:24:49: probability ")
    assert len(repr(found)) < 150
    assert html.index("<ol>") < html.index("<details>")
    named = opened(live)
    named.observe([("<b>", "ann", NOON)])
    assert "<b>&lt;b&gt;" in named.explain("<b>", "ann", at=NOON + 1)._repr_html_()


def test_ids_with_braces_are_told_as_they_are(live):
    live = opened(live)
    live.observe([("{0}", "{x}", NOON - 60)])
    found = live.explain("{0}", "{x}", at=NOON)
    assert found.reasons[0].text == "{0} met {x} at 2023-11-14 22:12:20, 1 minute ago"


def test_events_may_happen_while_reasons_are_worked_out(live):
    live = opened(live)
    expected = live.explain("ann", "bob", at=NOON)
    explain_later = live.explaining("ann", "bob", at=NOON)
    live.observe([("ann", "bob", NOON - 10), ("bob", "cay", NOON + 10)])
    assert explain_later() == expected
    assert live.explain("ann", "bob", at=NOON + 10) != expected
    with pytest.raises(StaleQuery, match="already observed 2023-11-14 22:13:30"):
        live.explaining("ann", "bob", at=NOON)


def test_deletions_are_told_apart():
    log = EventLog([0, 0, 0], [1, 1, 1], [1, 2, 3], op=[1, -1, 1])
    model = PINT(dim=4)
    stream = Stream(model, log.schema)
    stream.observe(log)
    found = explain(stream, 0, 1, 4)
    single = [reason for reason in found.reasons if reason.kind == "contact"]
    assert [reason.contacts[0].op for reason in single] == ["add", "delete", "add"]
    assert [reason.text.split(" at ")[0] for reason in single] == ["0 met 1", "0 parted from 1", "0 met 1"]


def test_a_model_that_judges_no_links_still_shows_walks():
    log = random_log(80, 8)
    model = model_class("ctdne")(dim=4)
    model.prepare(log)
    stream = Stream(model, log.schema)
    stream.observe(log)
    found = explain(stream, 0, 1, int(log.t[-1]) + 1)
    assert found.logit is None
    assert found.reasons[0].without is None
    assert "does not score links" in found.note


# -- the command -----------------------------------------------------------------------------------------------------


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["pintgn", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    return code, *capsys.readouterr()


def test_the_command_answers_in_words_and_as_json(live, monkeypatch, capsys):
    code, out, _ = command(monkeypatch, capsys, "explain", live.run.folder.path, "ann", "bob")
    assert code == 0
    assert out.count("Without ") == 3
    assert "more reasons: details(), or --all on the command line." in out
    code, out, _ = command(monkeypatch, capsys, "explain", live.run.folder.path, "ann", "bob", "--all")
    assert code == 0
    assert "What joins them" in out
    code, out, _ = command(monkeypatch, capsys, "explain", live.run.folder.path, "ann", "bob", "--json")
    told = json.loads(out)
    assert told["logit"] == pytest.approx(live.score("ann", "bob")["bob"], abs=1e-4)
    code, _, err = command(monkeypatch, capsys, "explain", live.run.folder.path, "ann", "bob", "--at", "2001-01-01")
    assert (code, err.split(":")[0]) == (2, "StaleQuery")
