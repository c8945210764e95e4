"""A run's state as a service keeps it: from the run's own log or from a snapshot, ready for the first question."""

from __future__ import annotations

import logging
from pathlib import Path

from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.retention import Retention
from pintgn.live.snapshot import restore
from pintgn.serve.limits import Options
from pintgn.stream.core import WORTH_RANKING

log = logging.getLogger("pintgn.serve")


def state_of(run: Run, options: Options, covered: int = 0, snapshot: Path | None = None) -> Live:
    """The state after a run's own log, which covers so many of the stored events, or that of a snapshot."""
    retention = Retention(options.keep_last, options.window, options.retain_every)
    if snapshot is None:
        live = Live(run, None, retention, options.evaluate_every, covered)
    else:
        live = restore(run, snapshot, retention, options.evaluate_every, covered)
    live.model.eval()
    return live


def warm_up(live: Live) -> None:
    """Compile and load before the first question comes. What goes wrong here must not keep a service from starting:
    the questions that meet it will say so."""
    if not live.run.scores_links:
        return
    live = live.reader()
    some, by = live.names.ids[: 2 * WORTH_RANKING], live.task.newest
    for ask in (
        lambda: live.score(some[0], some[-1:], relation=by),
        lambda: live.recommend(some[0], k=1, among=some, relation=by),
        lambda: live.explain(some[0], some[-1], relation=by),
    ):
        try:
            ask()
        except Exception as error:
            log.warning("a question that was asked to warm up failed: %s: %s", type(error).__name__, error)
