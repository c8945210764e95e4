"""What a service answers, as plain values ready for JSON: scores, recommendations, nodes, its own state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pintgn import __version__
from pintgn.errors import BadInput, StaleQuery
from pintgn.events.log import Query
from pintgn.learn.live import Live
from pintgn.learn.measure import judging
from pintgn.learn.metrics import check_finite
from pintgn.neighbors.contents import contents
from pintgn.serve.service import Service
from pintgn.serve.words import plain

RANKED = 4_000
"""Destinations ranked in one turn; what ingestion waits for at most."""


def score(service: Service, src: Sequence[Any], dst: Sequence[Any], at: Any = None) -> dict[str, Any]:
    """A logit and a probability for each pair, all as of one time: right after the newest event by default."""
    _check_judges(service)
    intake = service.engine.intake
    intake.check_ids(list(src), "src")
    intake.check_ids(list(dst), "dst")
    asked = None if at is None else intake.time(at)
    with service.asking() as live:
        when = live._at(asked)
        _check_fresh(live, when)
        logits = live.logits(src, dst, np.full(len(src), when, live._time_dtype))
    chances = live.calibration(logits)
    return {"at": plain(when), "logits": logits.tolist(), "probabilities": chances.tolist()}


def recommend(service: Service, node: Any, k: int, at: Any = None) -> dict[str, Any]:
    """The k most likely destinations of a node, best first.

    Many destinations are ranked in several turns, so that ingestion never waits for all of them. Then, without an
    explicit time, each part is judged right after the newest event at its own turn.
    """
    _check_judges(service)
    engine = service.engine
    engine.intake.check_ids([node], "node")
    asked = None if at is None else engine.intake.time(at)
    found: list[np.ndarray] = []
    pool = source = None
    begin = 0
    while pool is None or begin < len(pool):
        with service.asking() as live:
            if pool is None:
                source = live.names.find([node], 0)
                pool = np.flatnonzero(live._is_destination)
                pool = pool if live._self_loops else pool[pool != source[0]]
            when = live._at(asked)
            _check_fresh(live, when)
            query = Query(source, source, np.array([when], live._time_dtype))  # type: ignore[arg-type]
            part = pool[None, begin : begin + RANKED]
            if part.size:
                with judging(live.model):
                    found.append(live.stream.rank(None, query, part)[0].numpy(force=True))
            begin += RANKED
    logits = np.concatenate(found) if found else np.zeros(0, np.float32)
    check_finite(logits)
    best = np.argsort(-logits, kind="stable")[:k]
    chances = live.calibration(logits[best])
    items = [
        {"dst": live.names.ids[dst], "logit": logit, "probability": chance}
        for dst, logit, chance in zip(pool[best].tolist(), logits[best].tolist(), chances.tolist(), strict=True)
    ]
    return {"node": node, "at": plain(when), "items": items}


def node(service: Service, id: Any, depth: int = 2, neighbors: int = 10, side: str | None = None) -> dict[str, Any]:
    """What is known about a node: since when, how much, its newest contacts, and its temporal computation tree."""
    engine = service.engine
    engine.intake.check_ids([id], "node")
    with service.asking() as live:
        number = _number(live, id, side)
        known = number is not None and engine.nodes.known(number)
        answer: dict[str, Any] = {"node": id, "known": known, "side": side, "at": plain(live._at(None))}
        if live.names.two_spaces and number is not None:
            answer["side"] = ("src", "dst")[live.names.sides[number]]
        if not known or number is None:
            return answer | {
                "first_seen": None,
                "last_seen": None,
                "degree": 0,
                "recent": [],
                "tree": {"id": id, "children": []},
            }
        table, when = engine.nodes, live._at(None)
        answer["first_seen"], answer["last_seen"] = plain(table.first[number]), plain(table.last[number])
        answer["degree"] = plain(table.degree[number])
        answer["recent"] = _recent(live, number, neighbors)
        answer["tree"] = {"id": id, "children": _tree(live, number, when, depth, neighbors)}
    return answer


def _recent(live: Live, node: int, count: int) -> list[dict[str, Any]]:
    """A node's newest contacts: with whom, when, and who went to whom."""
    held = contents(live.stream.index)
    if node >= len(held.starts):
        return []
    entries = slice(held.starts[node], held.starts[node] + min(held.lengths[node], count))
    columns = (held.ids[entries].tolist(), held.times[entries].tolist(), live.stream.index._ways[entries].tolist())
    return [
        {"other": live.names.ids[other], "t": t, "direction": "self" if other == node else ("in", "out")[way]}
        for other, t, way in zip(*columns, strict=True)
    ]


def _tree(live: Live, root: int, when: Any, depth: int, width: int) -> list[dict[str, Any]]:
    """The newest contacts of a node before a time, their newest contacts before the same time, and so on."""
    children: list[dict[str, Any]] = []
    level: list[tuple[int, list[dict[str, Any]]]] = [(root, children)]
    for _ in range(depth):
        if not level or not width:
            break
        found = live.stream.index.recent(np.array([node for node, _ in level]), when, width)
        below: list[tuple[int, list[dict[str, Any]]]] = []
        for row, (_, mine) in enumerate(level):
            for slot in np.flatnonzero(found.mask[row]).tolist():
                other = int(found.ids[row, slot])
                child: dict[str, Any] = {
                    "id": live.names.ids[other],
                    "t": plain(found.t[row, slot]),
                    "dt": plain(found.dt[row, slot]),
                    "children": [],
                }
                mine.append(child)
                below.append((other, child["children"]))
        level = below
    return children


def _number(live: Live, id: Any, side: str | None) -> int | None:
    if side not in (None, "src", "dst"):
        raise BadInput(f"side={side!r}; it is 'src' or 'dst'.")
    spaces = {"src": (0,), "dst": (1,), None: (0, 1)}[side]
    return next((n for s in spaces if (n := live.names.space(s).get(id)) is not None), None)


def nodes(service: Service, prefix: str, limit: int) -> dict[str, Any]:
    """Ids that begin with a text."""
    with service.asking(), service.searching:
        return {"nodes": service.engine.search(prefix, limit)}


def explain(service: Service, src: Any, dst: Any, at: Any = None) -> dict[str, Any]:
    """Reasons behind a score; of a model that judges no links, what joins the two."""
    intake = service.engine.intake
    intake.check_ids([src], "src")
    intake.check_ids([dst], "dst")
    asked = None if at is None else intake.time(at)
    with service.asking() as live:
        _check_fresh(live, live._at(asked))
        explain = live.explaining(src, dst, at=asked)  # copied: events may happen while the reasons are worked out
    return explain().as_dict()


def status(service: Service) -> dict[str, Any]:
    """All that the page shows."""
    engine, run = service.engine, service.run
    with service.asking() as live:
        clock = live.clock
        facts = {
            "clock": plain(clock),
            "clock_text": live.schema.time.show(clock),
            "events": engine.events,
            "live_events": engine.total,
            "nodes": len(live.names),
            "quality": engine.quality.status(),
            "contacts": live.stream.index.size,
            "forgotten": engine.retention.forgotten,
        }
    log = run.log
    schema, t = log.schema, log.t
    model = {
        "name": run.settings.name,
        "class": type(live.model).__name__,
        "settings": live.model.settings(),
        "parameters": sum(p.numel() for p in live.model.parameters()),
        "epochs": len(run.history),
        "best_epoch": run.best_epoch,
        "seed": run.seed,
        "test": run.test.get("all"),
        "test_new_nodes": run.test.get("new"),
        "heuristics": {name: figures.get("all") for name, figures in run.heuristics.items()},
        "judges_links": run.judges_links,
    }
    data = {
        "run": None if run.folder is None else run.folder.path.name,
        "events": len(log),
        "nodes": log.nodes,
        "first": plain(t[0]),
        "last": plain(t[-1]),
        "first_text": schema.time.show(t[0]),
        "last_text": schema.time.show(t[-1]),
        "columns": {"src": schema.src, "dst": schema.dst, "t": schema.t, "op": schema.op},
        "features": [feature.name for feature in schema.features],
        "time_unit": schema.time.unit,
        "time_zone": schema.time.zone,
        "ids": "text" if live.names.text else "numbers",
        "two_spaces": schema.two_spaces,
    }
    return facts | {
        "rate_1m": service.rate.per_second(60),
        "rate_history": service.rate.history(),
        "waiting": service.waiting,
        "uptime": time.time() - service.started,
        "version": __version__,
        "reports": service.reports,
        "model": model,
        "data": data,
    }


def health(service: Service) -> dict[str, Any]:
    """Whether the service is well; `degraded` when an operator should look at it, `failed` when its writer stopped."""
    reports = service.reports
    return {
        "status": "failed" if not service.healthy else "degraded" if reports else "ok",
        "taking": service.taking,
        "clock": plain(service.engine.clock),
        "events": service.engine.events,
        "waiting": service.waiting,
        "reports": reports,
        "missing": [
            {"first": gap.first, "last": gap.last, "keys": {str(number): key for number, key in gap.keys.items()}}
            for gap in service.missing
        ],
    }


def metrics(service: Service) -> str:
    """Everything that is counted, in Prometheus' text format."""
    engine = service.engine
    with service.turns.reading():
        quality = engine.quality.status()
    return service.metrics.text(
        {
            "clock": ("Time of the newest event, in the log's own unit.", plain(engine.clock)),
            "events": ("Events observed in all, the run's log included.", engine.events),
            "nodes": ("Nodes known.", len(engine.live.names)),
            "contacts": ("Entries of the live index.", engine.live.stream.index.size),
            "forgotten": ("Contacts forgotten by retention.", engine.retention.forgotten),
            "waiting_events": ("Events that wait for the writer.", service.waiting),
            "events_per_second": ("Events per second over the last minute.", service.rate.per_second(60)),
            "store_bytes": ("Size of the store, without snapshots.", service.store.nbytes),
            "uptime_seconds": ("Since the service started.", time.time() - service.started),
            "quality_ap": ("Rolling AP of judged events, each against a random destination.", quality["ap_rolling"]),
            "quality_auc": ("Rolling AUC of the same.", quality["auc_rolling"]),
            "quality_reference_ap": ("AP on the run's test part.", quality["reference_ap"]),
            "quality_judged": ("Events judged so far.", quality["judged"]),
            "quality_drift": ("1 when the stream has become harder than chance explains.", int(quality["drift"])),
            "healthy": ("1 while events can be taken.", int(service.taking)),
        }
    )


def _check_judges(service: Service) -> None:
    if not service.run.judges_links:
        name = type(service.run.model).__name__
        raise BadInput(f"{name} embeds nodes and judges no links, so there is nothing to score. Serve another model.")


def _check_fresh(live: Live, when: Any) -> None:
    if when < live.clock:
        show = live.schema.time.show
        raise StaleQuery(f"asked about {show(when)}; {show(live.clock)} has been observed already.")
