"""What a question about a column costs beside one about a link: training and scoring, side by side on one log.

    python -m benchmarks.tasks [EVENTS]

Prints processor time for links, classes and values, and their cost relative to a link's, so that it may run beside
other work. A link in training is an event and its negatives; in scoring, one question for each event in all. Training
is what two epochs more take, with validation.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from examples.column_worlds import Ring
from pintgn import EventLog, fit
from pintgn.learn.measure import score_part
from pintgn.learn.run import Run

ROUNDS, TRAININGS = 5, 2
TASKS: dict[str, dict[str, Any]] = {
    "link": {},
    "classes": {"predict": "fraud", "given": ["amount"]},
    "values": {"predict": "amount"},
    "classes, known later": {"predict": "fraud", "given": ["amount"], "known_after": 3_600},
}


def fitted(log: EventLog, task: dict[str, Any], epochs: int) -> tuple[Run, float]:
    begin = time.process_time()
    run = fit("pint", log, epochs=epochs, progress=False, threads=1, **task)
    return run, time.process_time() - begin


def main(events: int = 20_000) -> None:
    log = Ring(accounts=300).simulate(events, 0)
    fit("pint", log[: events // 4], epochs=1, progress=False, predict="fraud", given=["amount"])  # kernels compile
    runs, trained = {}, dict.fromkeys(TASKS, float("inf"))
    scored = dict.fromkeys(TASKS, float("inf"))
    for _ in range(TRAININGS):  # in turns, so that whatever else the machine does hits all alike
        for name, task in TASKS.items():
            _, once = fitted(log, task, 1)
            runs[name], thrice = fitted(log, task, 3)
            trained[name] = min(trained[name], (thrice - once) / (2 * len(runs[name].parts.train)))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            stream, part = run.new_stream(), run.parts.test
            stream.observe(run.parts.before(part))
            asked, queries = None, [part.scored_events.query]
            if name != "link":
                asked, query, _ = run.task.questions(part, run.parts)  # type: ignore[attr-defined]
                queries = [query]
            begin = time.process_time()
            score_part(stream, part, queries, None, asked)
            scored[name] = min(scored[name], (time.process_time() - begin) / len(queries[0]))
    print(f"{events:,} events; microseconds of processor time per training event and per question, beside a link's")
    for name in TASKS:
        train_cost, score_cost = trained[name] / trained["link"], scored[name] / scored["link"]
        print(f"{name:22} {1e6 * trained[name]:7.1f} {train_cost:5.2f}x   {1e6 * scored[name]:7.1f} {score_cost:5.2f}x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
