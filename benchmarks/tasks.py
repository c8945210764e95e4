"""What a question about a column costs beside one about a link: training and scoring, side by side on one log.

    python -m benchmarks.tasks [EVENTS]

Prints events per second for links, classes and values, and their cost relative to a link's. A link in training is an
event and its negatives; in scoring, one question for each event in all three.
"""

from __future__ import annotations

import sys
import time

from pintgn import fit
from pintgn.events.column_worlds import Ring
from pintgn.learn.measure import score_part
from pintgn.learn.protocol import scored_events

ROUNDS = 5
TASKS = {
    "link": {},
    "classes": {"predict": "fraud", "given": ["amount"]},
    "values": {"predict": "amount"},
    "classes, known later": {"predict": "fraud", "given": ["amount"], "known_after": 3_600},
}


def main(events: int = 20_000) -> None:
    log = Ring(accounts=300).simulate(events, 0)
    runs, trained = {}, {}
    for name, task in TASKS.items():
        runs[name] = fit("pint", log, epochs=2, progress=False, **task)
        trained[name] = max(entry["events_per_second"] for entry in runs[name].history)
    scored = dict.fromkeys(TASKS, float("inf"))
    for _ in range(ROUNDS):  # in turns, so that whatever else the machine does hits all alike
        for name, run in runs.items():
            stream, part = run.new_stream(), run.parts.test
            stream.observe(run.parts.before(part))
            asked, queries = None, [scored_events(part).query]
            if name != "link":
                asked, query, _ = run.task.questions(part, run.parts)  # type: ignore[attr-defined]
                queries = [query]
            begin = time.perf_counter()
            score_part(stream, part, queries, None, asked)
            scored[name] = min(scored[name], (time.perf_counter() - begin) / len(queries[0]))
    print(f"{events:,} events; events per second in training, microseconds per question, cost relative to a link")
    for name in TASKS:
        train_cost, score_cost = trained["link"] / trained[name], scored[name] / scored["link"]
        print(f"{name:22} {trained[name]:8,.0f}/s {train_cost:5.2f}x   {1e6 * scored[name]:6.1f} us {score_cost:5.2f}x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
