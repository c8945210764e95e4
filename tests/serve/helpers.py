"""Small runs to serve, ways to say what happened, and what it means that two states are the same."""

from __future__ import annotations

import io
import json
import shutil
import warnings
from pathlib import Path

import numpy as np

from pintgn import Columns, fit, read_events
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.observing import Retention
from pintgn.models.registry import model_class
from pintgn.serve.limits import Options
from pintgn.serve.requests import Requests
from pintgn.serve.service import Service

with warnings.catch_warnings():  # which HTTP library it would rather use is no concern of ours
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient as TestClient

SMALL = {
    "pint": {"dim": 8, "neighbors": 4, "positions": 3},
    "tgn": {"dim": 8, "memory": 8, "neighbors": 4, "heads": 2, "time_dim": 8},
    "dyrep": {"dim": 8, "memory": 8, "neighbors": 4, "time_dim": 8},
}
TRAINED = 240


def happened(events: int = 900, nodes: int = 24, seed: int = 0, features: bool = False, op: bool = False) -> dict:
    """Columns of random events between named people: ties, repeats, self-loops; new people keep coming."""
    rng = np.random.default_rng(seed)
    late = np.linspace(nodes // 2, nodes, events).astype(int)
    src, dst = rng.integers(0, late), rng.integers(0, late)
    for row in np.flatnonzero(rng.random(events) < 0.5):
        if row > 10:
            src[row], dst[row] = src[row - 5], dst[row - 5]
    columns = {
        "src": [f"person {k}" for k in src],
        "dst": [f"person {k}" for k in dst],
        "t": (1_000 + np.sort(rng.integers(0, events // 2, events))).tolist(),
    }
    if features:
        columns["amount"] = np.round(rng.exponential(20, events), 2).tolist()
        columns["kind"] = rng.choice(["card", "cash", "wire"], events).tolist()
    if op:
        columns["op"] = np.where(rng.random(events) < 0.2, "delete", "add").tolist()
    return columns


def trained(folder: Path, columns: dict, model: str = "pint", **settings) -> Path:
    """A run of the first events, quickly trained."""
    head = {name: column[:TRAINED] for name, column in columns.items()}
    names = [name for name in ("amount", "kind") if name in columns]
    log = read_events(head, features=names or None, columns=Columns(op="op" if "op" in columns else None))
    made = model_class(model).from_settings(SMALL.get(model, {}) | settings)
    fit(made, log, folder=folder, epochs=1, batch=80, learning_rate=1e-2)
    return folder


def as_events(columns: dict, start: int, stop: int, keyed: bool = False) -> list[dict]:
    """Events as clients send them."""
    named = [name for name in ("amount", "kind") if name in columns]
    found = []
    for k in range(start, min(stop, len(columns["t"]))):
        event = {name: columns[name][k] for name in ("src", "dst", "t")}
        if named:
            event["features"] = {name: columns[name][k] for name in named}
        if "op" in columns:
            event["op"] = columns["op"][k]
        if keyed:
            event["key"] = f"event {k}"
        found.append(event)
    return found


def as_batch(live: Live, columns: dict, start: int, stop: int, keyed: bool = False) -> EventBatch:
    """The same, checked."""
    return Requests(live.codec).events(json.dumps({"events": as_events(columns, start, stop, keyed)}).encode())


def served(run, columns: dict, folder: Path, upto=(400, 500, 600), snapshot=None, keyed: bool = False) -> None:
    """A store with a commit for each part, as a killed process leaves it: the newest half only in the log of SQLite."""
    with Service.open(run, folder.with_name(f"{folder.name}-alive"), Options(snapshot_every=10**6)) as service:
        begin = TRAINED
        for end in upto:
            service.submit(as_batch(service.live, columns, begin, end, keyed)).result(30)
            if end == snapshot:
                service.snapshot().result(30)
            if end == upto[len(upto) // 2]:
                service.store.db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            begin = end
        shutil.copytree(service.store.folder.path, folder)
    shutil.rmtree(service.store.folder.path)


def open_to_others(path: Path) -> list[Path]:
    """What of a file, or of a folder and all below, anybody but the owner could read or change."""
    return [one for one in (path, *path.rglob("*")) if one.lstat().st_mode & 0o077 and not one.is_symlink()]


def restarted(run, folder: Path, **options) -> Service:
    return Service.open(run, folder, Options(snapshot_every=10**6, **options))


def replayed(
    run: Path | Run, columns: dict, stop: int, batch: int = 10_000, retention: Retention | None = None
) -> Live:
    """A clean replay: the run's log, then events up to a number, never stopped."""
    live = Live(run if isinstance(run, Run) else Run.open(run), None, retention, evaluate_every=10)
    for begin in range(TRAINED, stop, batch):
        live.observe_batch(as_batch(live, columns, begin, min(begin + batch, stop)))
    return live


def assert_same_state(one: Live, other: Live) -> None:
    """Everything that answers depend on is the same, bit for bit."""
    assert one.total == other.total
    assert one.clock == other.clock
    assert one.names.ids == other.names.ids
    assert one.destinations.values.tolist() == other.destinations.values.tolist()
    for name, column in one.nodes.arrays().items():
        assert np.array_equal(column, other.nodes.arrays()[name]), name
    a, b = one.stream, other.stream
    assert (a.events, a.history.group_start, a.blocks.planned) == (b.events, b.history.group_start, b.blocks.planned)
    for name, array in _saved(a.index).items():
        assert np.array_equal(array, _saved(b.index)[name]), f"index: {name}"
    if a.history.event_table is not None:
        assert np.array_equal(a.history.event_table[: a.events], b.history.event_table[: b.events])
    if a.state is not None:
        for name, column in a.state.arrays().items():
            assert np.array_equal(column, b.state.arrays()[name]), f"memory: {name}"
    everyone = np.arange(len(one.names))
    if a.positions is not None:
        grid = np.meshgrid(everyone, everyone)
        assert np.array_equal(a.positions.read(*grid, transform="raw"), b.positions.read(*grid, transform="raw"))
    assert np.array_equal(all_scores(one), all_scores(other))
    assert one.prequential.scored == other.prequential.scored
    assert np.allclose(one.prequential.held(), other.prequential.held(), atol=1e-4)
    mine, theirs = (live.prequential.facts() for live in (one, other))
    assert mine.get("truth") == theirs.get("truth")
    assert np.allclose(mine.get("answers", []), theirs.get("answers", []), atol=1e-4)
    waiting = [[row[:7] for row in facts.get("waiting", [])] for facts in (mine, theirs)]  # all but the answers
    assert waiting[0] == waiting[1]
    assert mine.get("given_up") == theirs.get("given_up")


def all_scores(live: Live, at: object = None) -> np.ndarray:
    """Logits of all pairs of the first people."""
    live = live.reader()
    ids = live.names.ids[:12]
    pairs = [(s, d) for s in ids for d in ids]
    return live.score_pairs([s for s, _ in pairs], [d for _, d in pairs], at).logits


def _saved(index) -> dict[str, np.ndarray]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/index.npz")
        with np.load(io.BytesIO(Path(f"{folder}/index.npz").read_bytes())) as file:
            return dict(file)


def compacted(service):
    """Drop the stored events that every snapshot holds; returns how many."""
    service.snapshot().result(60)
    return service.call(lambda: service.store.drop(service.writer.snapshots.oldest())).result(60)
