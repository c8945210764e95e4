"""Answers of a service, as plain values ready for JSON: scores, recommendations, nodes, its own state."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pintgn import __version__
from pintgn.errors import BadInput, StaleQuery
from pintgn.events.schema import Feature
from pintgn.live import recommend as ranking
from pintgn.live.live import Live
from pintgn.live.questions import notes
from pintgn.neighbors.contents import contents
from pintgn.serve.service import Service

RANKED = 4_000
"""Destinations ranked in one turn; what ingestion waits for at most."""


def score(service: Service, body: bytes | bytearray) -> dict[str, Any]:
    """A logit and a probability for each pair, all as of one time: right after the newest event by default."""
    run = service.run
    if not run.scores_links:
        return _ask(service, body)
    src, dst, at, against, paired, given = service.requests.pairs(body)
    relation = _relations(run.settings.task.relation, given)
    with service.asking() as live:
        when, event = _fresh(live, at), live.total
        found = live.score_pairs(src, dst, np.full(len(src), when, live.codec.dtype), against, relation)
    columns = {"logit": found.logits, "probability": found.probabilities, "notes": found.notes}
    return {"at": when.item(), "event": event, "scores": _rows(paired, src, dst, columns)} | _held(service)


def _ask(service: Service, body: bytes | bytearray) -> dict[str, Any]:
    """Predictions of a column for events that may happen, all as of one time."""
    if not service.run.answers:
        raise _no_links(service)
    task = service.run.settings.task
    src, dst, at, _, paired, given = service.requests.pairs(body, task.sides)
    with service.asking() as live:
        when, event = _fresh(live, at), live.total
        named = given if task.given or any(given) else None
        columns = live.ask(src, dst, named, np.full(len(src), when, live.codec.dtype))
    rows = _rows(paired or task.sides == (0,), src, dst, columns | {"notes": notes(live, src, dst)})
    return {"at": when.item(), "event": event, "predict": task.predict, "scores": rows} | _held(service)


def _rows(paired: bool, src: list[Any], dst: list[Any], columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as one object for each pair; with its source where pairs were named, or sources are asked about."""
    shown = ({"src": src} if paired else {}) | {"dst": dst} | columns
    lists = [column if isinstance(column, list) else column.tolist() for column in shown.values()]
    return [dict(zip(shown, row, strict=True)) for row in zip(*lists, strict=True)]


def _relations(name: str | None, given: list[Any]) -> list[Any] | None:
    """The relation of each pair, of a run that was trained with relations."""
    if name is None:
        if any(one is not None for one in given):
            raise BadInput("this run scores links, about which nothing is given. Leave out 'given'.")
        return None
    for row, one in enumerate(given):
        if not isinstance(one, dict) or list(one) != [name]:
            raise BadInput(f'pair {row}: this run asks by {name!r}; give it as in "given": {{"{name}": …}}.')
    return [one[name] for one in given]


def recommend(service: Service, node: Any, k: int, at: Any = None, relation: Any = None) -> dict[str, Any]:
    """The k most likely destinations of a node, best first.

    Many destinations are ranked in several turns, so that ingestion never waits for all of them. Then, without an
    explicit time, each part is scored right after the newest event at its own turn.
    """
    if not service.run.scores_links:
        raise _no_links(service)
    with service.asking() as live:
        when, event = _fresh(live, at), live.total
        pool = ranking.candidates(live, node, at, relation)
    found = []
    for begin in range(0, len(pool), RANKED):
        with service.asking() as live:
            when, event = _fresh(live, at), live.total
            found.append(ranking.rank_candidates(live, node, pool[begin : begin + RANKED], at, relation))
    items = ranking.best(live, node, pool, np.concatenate([np.zeros(0, np.float32), *found]), k, relation)
    shown = {"node": node, "at": when.item(), "event": event, "items": [item._asdict() for item in items]}
    return shown | _held(service)


def node(service: Service, node: Any, depth: int = 2, neighbors: int = 10, side: str | None = None) -> dict[str, Any]:
    """A node: its first event, its number of events, its newest contacts, and its temporal computation tree."""
    service.live.codec.check_ids([node], "node")
    with service.asking() as live:
        number, when, table = _number(live, node, side), live.time_of(), live.nodes
        if number is not None and live.names.separate_namespaces:
            side = ("src", "dst")[live.names.sides[number]]
        answer = {"node": node, "known": False, "side": side, "at": when.item(), "event": live.total}
        answer |= {"first_seen": None, "last_seen": None, "degree": 0, "recent": []}
        answer["tree"] = {"id": node, "children": []}
        if number is not None and table.known(number):
            answer |= {
                "known": True,
                "first_seen": table.first[number].item(),
                "last_seen": table.last[number].item(),
                "degree": table.degree[number].item(),
                "recent": _recent(live, number, neighbors),
                "tree": {"id": node, "children": _tree(live, number, when, depth, neighbors)},
            }
    return answer | _held(service)


def _recent(live: Live, node: int, count: int) -> list[dict[str, Any]]:
    """A node's newest contacts: the other node, the time, and the direction."""
    held = contents(live.stream.index)
    if node >= len(held.starts):
        return []
    entries = slice(held.starts[node], held.starts[node] + min(held.lengths[node], count))
    columns = (held.ids[entries].tolist(), held.times[entries].tolist(), held.outgoing(node, 0, count).tolist())
    return [
        {"other": live.names.ids[other], "t": t, "direction": "self" if other == node else ("in", "out")[out]}
        for other, t, out in zip(*columns, strict=True)
    ]


def _tree(live: Live, node: int, when: Any, depth: int, width: int) -> list[dict[str, Any]]:
    """The newest contacts of a node before a time, their newest contacts before the same time, and so on."""
    if not depth or not width:
        return []
    found = live.stream.index.recent(node, when, width)
    columns = (column[found.mask].tolist() for column in (found.ids, found.t, found.dt))
    return [
        {"id": live.names.ids[other], "t": t, "dt": dt, "children": _tree(live, other, when, depth - 1, width)}
        for other, t, dt in zip(*columns, strict=True)
    ]


def _number(live: Live, id: Any, side: str | None) -> int | None:
    if side not in (None, "src", "dst"):
        raise BadInput(f"side={side!r}; it is 'src' or 'dst'.")
    sides = {"src": (0,), "dst": (1,), None: (0, 1)}[side]
    return next((live.names.numbers[s][id] for s in sides if id in live.names.numbers[s]), None)


def nodes(service: Service, prefix: str, limit: int) -> dict[str, Any]:
    """Ids with a prefix; without one, the most recently active nodes, the busiest first."""
    with service.asking() as live, service.writer.state.searching:
        found = service.writer.state.search(prefix, limit) if prefix else _recently_active(live, limit)
        return {"event": live.total, "nodes": found}


def _recently_active(live: Live, limit: int) -> list[Any]:
    last, degree = live.nodes.last.values, live.nodes.degree.values
    known = degree > 0
    if live.names.separate_namespaces:  # sources: they are what is asked about
        known &= np.asarray(live.names.sides[: len(last)]) == 0
    numbers = np.flatnonzero(known)
    if len(numbers) > limit:
        oldest = np.partition(last[numbers], -limit)[-limit]
        numbers = numbers[last[numbers] >= oldest]
    order = np.lexsort((numbers, degree[numbers], last[numbers]))[::-1][:limit]
    return [live.names.ids[number] for number in numbers[order]]


def explain(
    service: Service, src: Any, dst: Any = None, at: Any = None, given: str | None = None, relation: str | None = None
) -> dict[str, Any]:
    """Reasons behind an answer; of a model that scores no links, what joins the two."""
    named = None if given is None else service.requests.given(given)
    with service.asking() as live:
        _fresh(live, at)
        # copied: events may happen while the reasons are worked out
        explain = live.explaining(src, dst, at, given=named, relation=relation)
        event = live.total
    return explain().as_dict() | {"event": event} | _held(service)


def status(service: Service) -> dict[str, Any]:
    """Everything that the page shows."""
    run = service.run
    with service.asking() as live:
        facts = health(service) | {
            "clock_text": live.schema.time.show(live.clock),
            "live_events": live.events - len(run.log),
            "nodes": len(live.names),
            "quality": live.prequential.status(),
            "contacts": live.stream.index.size,
            "forgotten": live.retention.forgotten,
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
        "scores_links": run.scores_links,
        "predict": run.settings.task.predict,
        "given": run.settings.task.given,
        "asks": _asks(service),
        "relation": run.task.asked_by,
    }
    data = {
        "run": None if run.folder is None else run.folder.path.name,
        "events": len(log),
        "nodes": log.nodes,
        "first": t[0].item(),
        "last": t[-1].item(),
        "first_text": schema.time.show(t[0]),
        "last_text": schema.time.show(t[-1]),
        "columns": {"src": schema.src, "dst": schema.dst, "t": schema.t, "op": schema.op},
        "features": [feature.name for feature in schema.features],
        "feature_kinds": [_kind(feature) for feature in schema.features],
        "time_unit": schema.time.unit,
        "time_zone": schema.time.zone,
        "ids": "text" if live.codec.text else "numbers",
        "separate_namespaces": schema.separate_namespaces,
    }
    return facts | {
        "rate_1m": service.writer.rate.per_second(60),
        "rate_history": service.writer.rate.history(),
        "uptime": time.monotonic() - service.started,
        "version": __version__,
        "models": models(service),
        "model": model,
        "data": data,
    }


def models(service: Service) -> dict[str, Any]:
    """The served run, the results of earlier candidates, and the progress of a current one."""
    candidate, folder = service.writer.candidate, service.run.folder
    active = None if folder is None else str(folder.path.absolute())
    shown = None if candidate is None or not candidate.busy else candidate.facts()
    return {"active": active, "candidate": shown, "history": service.writer.models.facts()["history"]}


def health(service: Service) -> dict[str, Any]:
    """Whether the service is well; `degraded` when an operator should look at it, `failed` when its writer stopped."""
    reports = service.reports
    return {
        "status": "failed" if not service.healthy else "degraded" if reports else "ok",
        "taking": service.taking,
        "role": service.role,
        "run": None if service.run.folder is None else service.run.folder.path.name,
        "clock": service.live.clock,
        "event": service.live.total,
        "events": service.live.events,
        "lag_events": service.writer.follower.events,
        "lag_seconds": round(service.writer.follower.seconds, 3),
        "waiting": service.writer.waiting,
        **service.held_facts(),
        "reports": reports,
    }


def metrics(service: Service) -> str:
    """All metrics in Prometheus' text format."""
    live = service.live
    with service.writer.state.lock.reading:
        quality = live.prequential.status()
    return service.writer.metrics.text(
        {
            "clock": ("Time of the newest event, in the log's own unit.", live.clock),
            "events": ("Events observed in all, the run's log included.", live.events),
            "nodes": ("Nodes known.", len(live.names)),
            "contacts": ("Entries of the live index.", live.stream.index.size),
            "forgotten": ("Contacts forgotten by retention.", live.retention.forgotten),
            "waiting_events": ("Events that wait for the writer.", service.writer.waiting),
            "held_events": (
                "Events that wait until no earlier one can come (--lateness).",
                service.store.waiting,
            ),
            "events_per_second": ("Events per second over the last minute.", service.writer.rate.per_second(60)),
            "store_bytes": ("Size of the store, without snapshots.", service.store.nbytes),
            "uptime_seconds": ("Since the service started.", time.monotonic() - service.started),
            "quality_ap": ("Rolling AP of scored events, each against a random destination.", quality["ap_rolling"]),
            "quality_auc": ("Rolling AUC of the same.", quality["auc_rolling"]),
            "quality_reference_ap": ("AP on the run's test part.", quality["reference_ap"]),
            "quality_rolling": ("Rolling figure of the run's task, such as AP or MAE.", quality["rolling"]),
            "quality_reference": ("The same figure on the run's test part.", quality["reference"]),
            "quality_scored": ("Events scored before they happened, so far.", quality["scored"]),
            "quality_waiting": ("Answers that wait until their target is known.", quality["waiting"]),
            "quality_given_up": ("Answers whose target did not come before too many waited.", quality["given_up"]),
            "quality_drift": ("1 when the stream has become harder than chance explains.", int(quality["drift"])),
            "event": ("Number of the newest event that answers count.", live.total),
            "writer": ("1 while this service writes to its store, 0 while it follows.", int(service.role == "writer")),
            "lag_events": ("Events of the store that answers do not count yet.", service.writer.follower.events),
            "lag_seconds": ("Time since answers counted all events.", service.writer.follower.seconds),
            "healthy": ("1 while events can be taken.", int(service.taking)),
        }
    )


def _asks(service: Service) -> dict[str, Any] | None:
    """The form for a run that predicts a column or a time; None where links are scored."""
    run = service.run
    if not run.answers or run.scores_links:
        return None
    task, log, given, start = run.settings.task, run.log, [], 0
    for feature in log.schema.features:
        if feature.name in task.given and log.features is not None:
            newest = log.features[-1, start : start + feature.width]
            example = float(newest[0]) if feature.kind == "number" else None
            given.append(
                {"name": feature.name, "kind": _kind(feature), "choices": list(feature.categories), "example": example}
            )
        start += feature.width
    return {"title": run.task.title(), "sides": list(task.sides), "given": given}


def _held(service: Service) -> dict[str, int]:
    """The events that an answer does not count yet because they wait for earlier ones; empty if there are none."""
    waiting = service.writer.store.waiting
    return {"held": waiting} if waiting else {}


def _kind(feature: Feature) -> str:
    """The type of a feature's values: number, text, whole or boolean."""
    if feature.kind == "number":
        return "number"
    some = next(iter(feature.categories or feature.words), "")
    return "boolean" if isinstance(some, bool) else "whole" if isinstance(some, int) else "text"


def _no_links(service: Service) -> BadInput:
    """Why a run scores no links."""
    if service.run.answers:
        column = service.run.settings.task.predict
        return BadInput(f"this run predicts {column!r}, not links, so no destination can be recommended.")
    name = type(service.run.model).__name__
    return BadInput(f"{name} embeds nodes and scores no links, so there is nothing to score. Serve another model.")


def _fresh(live: Live, at: Any) -> Any:
    """The time of a query; refused when it has passed."""
    when = live.time_of(at)
    if when < live.clock:
        show = live.schema.time.show
        raise StaleQuery(f"asked about {show(when)}; {show(live.clock)} has been observed already.")
    return when
