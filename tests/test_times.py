"""Every public place that takes a time, and every form a time may have: place by form, all answer alike."""

from __future__ import annotations

import datetime
import json
import tempfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pintgn
from pintgn import PINT, Stream, interop, read_events, theory, to_snapshots
from pintgn.errors import BadInput
from pintgn.learn.run import Run
from pintgn.live.predict import predict
from pintgn.serve.api import create_app
from pintgn.serve.service import Service
from tests.serve.helpers import TestClient

START = datetime.datetime(2024, 3, 1)
MOMENT = 1_710_547_200  # 2024-03-16, a day after the last event of the run
FORMS = {
    "int": MOMENT,
    "float": float(MOMENT),
    "numpy int": np.int64(MOMENT),
    "numpy float": np.float64(MOMENT),
    "text of a number": str(MOMENT),
    "ISO date": "2024-03-16",
    "ISO time": "2024-03-16T00:00:00",
    "datetime": datetime.datetime(2024, 3, 16),
    "date": datetime.date(2024, 3, 16),
    "pandas": pd.Timestamp("2024-03-16"),
    "datetime64": np.datetime64("2024-03-16"),
}
WRONG = {
    "a zone": ("2024-03-16T00:00Z", "without a time zone"),
    "a word": ("soon", "neither a number nor a date"),
    "a year": ("2024", "may be a date or a count"),
    "nothing finite": (float("nan"), "finite"),
    "a truth": (True, "neither a number nor a date|got 'bool'"),
}
TEXTS = {name for name, value in (FORMS | {k: v for k, (v, _) in WRONG.items()}).items() if isinstance(value, str)}
JSON = TEXTS | {"int", "float", "a truth"}


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    hours = np.sort(rng.integers(0, 14 * 24, 300))
    return {
        "src": [f"u{k}" for k in rng.integers(0, 8, 300)],
        "dst": [f"v{k}" for k in rng.integers(0, 8, 300)],
        "t": [(START + datetime.timedelta(hours=int(hour))).isoformat() for hour in hours],
    }


@pytest.fixture(scope="module")
def world(columns, tmp_path_factory):
    """A log of dates around the moment, and a run trained on what came before it."""
    folder = tmp_path_factory.mktemp("times")
    later = {
        "src": ["u1", "u2"],
        "dst": ["v1", "v2"],
        "t": ["2024-03-16T00:00:00", "2024-03-17T00:00:00"],
    }
    log = read_events({name: columns[name] + later[name] for name in columns})
    pintgn.write_events(log, folder / "all.csv")
    pintgn.fit(PINT(dim=8, neighbors=4), read_events(columns), folder=folder / "run", epochs=1)
    return log, folder, pintgn.open(folder / "run")


def command(*words) -> str:
    from pintgn.cli.app import app

    found = CliRunner().invoke(app, [str(word) for word in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout


def streamed(world):
    stream = Stream(PINT(dim=8, neighbors=4), world[0].schema)
    stream.observe(world[0][:300])
    return stream


def observed(world, at):
    running = pintgn.open(world[1] / "run")
    running.observe([("u1", "v1", at, {})])
    return int(running.clock)


def asked(world, how):
    with tempfile.TemporaryDirectory() as store, Service(Run.open(world[1] / "run"), store) as service:
        answer = how(TestClient(create_app(service)))
    if answer.status_code != 200:
        raise BadInput(answer.json()["message"])
    return answer.json()


PLACES = {
    "EventLog.between, to": lambda w, at: len(w[0].between(None, at)),
    "EventLog.between, from": lambda w, at: len(w[0].between(at)),
    "EventLog.time": lambda w, at: int(w[0].time(at)),
    "interop.to_networkx, at": lambda w, at: sorted(interop.to_networkx(w[0], at).edges),
    "interop.to_networkx, since": lambda w, at: sorted(interop.to_networkx(w[0], None, at).edges),
    "interop.networkx_snapshots": lambda w, at: [
        sorted(g.edges) for _, g in interop.networkx_snapshots(w[0], [at], 86_400)
    ],
    "to_snapshots, start": lambda w, at: len(to_snapshots(w[0][300:], 86_400, start=at)),
    "theory.temporal_wl": lambda w, at: theory.temporal_wl(w[0], 1, at).colors.tolist(),
    "theory.temporal_wl_test": lambda w, at: str(theory.temporal_wl_test(w[0], w[0], at)),
    "theory.distinguish": lambda w, at: str(theory.distinguish(w[0], "u1", "u2", at)),
    "theory.computation_tree": lambda w, at: str(theory.computation_tree(w[0], "u1", at, depth=1)),
    "theory.monotone_tree": lambda w, at: str(theory.monotone_tree(w[0], "u1", at, depth=1)),
    "theory.anonymous_walks": lambda w, at: sorted(map(str, theory.anonymous_walks(w[0], "u1", "v1", at, 1).counts)),
    "theory.temporal_diameter": lambda w, at: theory.temporal_diameter(w[0], at),
    "theory.report": lambda w, at: str(theory.report(w[0], at, pairs=2, roots=2).at),
    "Stream.embed": lambda w, at: streamed(w).embed([0, 1], at).tolist(),
    "Stream.forget": lambda w, at: streamed(w).forget(before_t=at),
    "Live.score": lambda w, at: w[2].score("u1", "v1", at),
    "Live.probability": lambda w, at: w[2].probability("u1", "v1", at),
    "Live.recommend": lambda w, at: w[2].recommend("u1", 2, at),
    "Live.explain": lambda w, at: w[2].explain("u1", "v1", at).logit,
    "Live.embed": lambda w, at: w[2].embed(["u1"], at)[1].tolist(),
    "Live.observe": observed,
    "predict": lambda w, at: predict(w[2], {"src": ["u1"], "dst": ["v1"]}, at=at).to_pylist(),
}
TYPED = {  # what is typed or stands in an address is text
    "pintgn predict --at": lambda w, at: command("predict", w[1] / "run", w[1] / "pairs.csv", "--at", at),
    "pintgn recommend --at": lambda w, at: command("recommend", w[1] / "run", "--src", "u1", "--at", at),
    "pintgn embed --at": lambda w, at: command("embed", w[1] / "run", "--at", at),
    "pintgn explain --at": lambda w, at: command("explain", w[1] / "run", "u1", "v1", "--at", at),
    "pintgn theory wl --at": lambda w, at: command("theory", "wl", w[1] / "all.csv", "--at", at, "--rounds", "1"),
    "pintgn theory tree --at": lambda w, at: command(
        "theory", "tree", w[1] / "all.csv", "u1", "--at", at, "--depth", "1"
    ),
    "pintgn theory distinguish --at": lambda w, at: command(
        "theory", "distinguish", w[1] / "all.csv", "u1", "u2", "--at", at
    ),
    "GET /recommend?at=": lambda w, at: asked(w, lambda c: c.get("/recommend/u1", params={"at": at})),
    "GET /explain?at=": lambda w, at: asked(
        w, lambda c: c.get("/explain", params={"src": "u1", "dst": "v1", "at": at})
    ),
}
WRITTEN = {  # JSON has texts and numbers
    "POST /score": lambda w, at: asked(w, lambda c: c.post("/score", json={"src": "u1", "dst": ["v1"], "at": at})),
    "POST /events": lambda w, at: asked(w, lambda c: c.post("/events", json=[{"src": "u1", "dst": "v1", "t": at}])),
}


@pytest.mark.parametrize("place", PLACES | TYPED | WRITTEN)
def test_every_form_gives_the_same_answer(place, world):
    (world[1] / "pairs.csv").write_text("src,dst\nu1,v1\n")
    forms = FORMS if place in PLACES else {k: v for k, v in FORMS.items() if k in (TEXTS if place in TYPED else JSON)}
    answers = {}
    for form, value in forms.items():
        answers[form] = json.dumps((PLACES | TYPED | WRITTEN)[place](world, value), default=str)
    assert len(set(answers.values())) == 1, answers


@pytest.mark.parametrize("place", PLACES | TYPED | WRITTEN)
def test_what_is_no_time_of_this_log_is_refused_in_one_line(place, world):
    (world[1] / "pairs.csv").write_text("src,dst\nu1,v1\n")
    for name, (value, said) in WRONG.items():
        if place in PLACES or name in (TEXTS if place in TYPED else JSON):
            with pytest.raises(BadInput, match=said) as error:
                (PLACES | TYPED | WRITTEN)[place](world, value)
            assert "\n" not in str(error.value), name


def test_a_cut_by_a_date_leaves_out_what_came_later(world):
    log = world[0]
    assert len(log.between(None, "2024-03-16")) == 300
    assert len(log.between("2024-03-16")) == 2
    assert len(log.between("2024-03-16T00:00:00.5")) == 1
    assert len(log.between(datetime.date(2024, 3, 1), pd.Timestamp("2024-03-17"))) == 301
    assert len(log.between(-np.inf, np.inf)) == 302
