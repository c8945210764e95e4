"""What questions about columns, times and relations reach: the tables of docs/tasks.md and docs/relations.md.

    python -m benchmarks.tasks_reached --data-folder FOLDER [--only NAME ...] [--seeds 0 1 2] [--runs FOLDER]
    python -m benchmarks.tasks_reached --show

Each row, a question with a seed, is appended to results/tasks.jsonl when it is there: the figures of PINT, of PINT
without positions where that is asked, of boosted trees and of the training-free rows on the same test questions, with
settings, commit and processor time. Rows that are there are not made again. --show prints the tables: mean and standard
deviation over seeds, and what PINT is ahead by, paired by seed, with a 95 % interval.

FOLDER has NAME.parquet for every real log; simulated worlds need none, and their log is drawn anew for each seed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

import pintgn
from examples.column_worlds import COLUMN_WORLDS
from paper.paired import Paired
from paper.results import circumstances, made_by
from pintgn.learn.measure import train_baseline
from pintgn.learn.metrics import by_novelty, rank_metrics
from pintgn.learn.relation_ranks import both_directions
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.tasks.relation import Related
from pintgn.learn.tasks.task import Answers

RESULTS = Path(__file__).parents[1] / "results" / "tasks.jsonl"
EVENTS, ORDERS = 10_000, 50
"""Of a simulated log; and of equal best answers, for what they reach."""


@dataclass(frozen=True)
class Question:
    """A log, what is asked about it, and by which figures the answer is told."""

    log: Callable[[Path, int], Any]  # from the data folder and the seed
    task: dict[str, Any]
    shown: tuple[str, ...]  # figures, the first of which decides which training-free row is the best
    epochs: int
    plain: bool = False  # whether PINT without positions stands beside it
    boosted: bool = True
    most: int = 1_000_000  # test events that are measured by, evenly taken
    world: bool = False
    train: dict[str, Any] = field(default_factory=dict)  # settings of training besides


def _read(name: str, **how: Any) -> Callable[[Path, int], Any]:
    return lambda folder, seed: pintgn.read_events(folder / f"{name}.parquet", **how)


def _sign(folder: Path, seed: int) -> Any:
    """The ratings of bitcoin_otc as whether they are above 0."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "bitcoin_otc.parquet")
    return pintgn.read_events(table.append_column("trusted", pc.greater(table["rating"], 0)), features=["trusted"])


def _world(name: str, shown: tuple[str, ...], **task: Any) -> Question:
    predict = COLUMN_WORLDS[name].predict
    return Question(
        lambda folder, seed: COLUMN_WORLDS[name]().simulate(EVENTS, seed),
        {"predict": predict, **task}, shown, epochs=15, plain=True, world=True,
    )  # fmt: skip


QUESTIONS: dict[str, Question] = {
    "bitcoin_otc rating": Question(_read("bitcoin_otc", features=["rating"]), {"predict": "rating"}, ("r2", "rmse"), 6),
    "bitcoin_otc sign": Question(_sign, {"predict": "trusted"}, ("ap", "auc"), 6),
    "uci return": Question(_read("uci"), {"predict": "return", "within": 604_800}, ("ap", "brier"), 10),
    "wikipedia label": Question(
        _read("wikipedia", features=["label"]), {"predict": "label", "of": "src"}, ("ap", "auc"), 2
    ),
    "cards": _world("cards", ("ap",)),
    "ring": _world("ring", ("ap",), given=["amount"]),
    "accounts": _world("accounts", ("r2",)),
    "funnel": _world("funnel", ("log_loss", "auc")),
    "yago": Question(
        _read("yago", features=["relation"]), {"relation": "relation"}, ("mrr", "hits@1", "hits@3", "hits@10"), 3,
        plain=True, most=1_000, train={"train_until": 178, "val_until": 183, "hidden": 0},
    ),
}  # fmt: skip
SMALLER_IS_BETTER = ("log_loss", "brier", "rmse", "mae")


def measured(name: str, seed: int, folder: Path, runs: Path | None = None) -> dict[str, Any]:
    """A row: figures of all, seen and new by model, and what they were made with; `runs` are kept, to be continued."""
    question, begin = QUESTIONS[name], time.process_time()
    log = question.log(folder, seed)

    def trained(**model: Any) -> Run:
        train = {"epochs": question.epochs, "threads": 1} | question.train
        how = Settings.of({"model": {"name": "pint"} | model, "train": train, "task": question.task})
        kept = None if runs is None else runs / "-".join([name.replace(" ", "-"), str(seed), *model])
        return pintgn.fit(how, log, folder=kept, seed=seed, progress=False)

    run = trained()
    beside = [*run.task.baselines, *(["boosted"] if question.boosted else [])]
    ahead: dict[str, Any] = {}
    if isinstance(run.task, Related):
        others = {"boosted": train_baseline(run, "boosted")} if question.boosted else {}
        found, ahead = ranked({"pint": run, "positions=0": trained(positions=0)} | others, question.most)
    else:
        found = next(iter(pintgn.evaluate(run, baselines=beside).negatives.values()))
    if question.plain and "positions=0" not in found:
        without = pintgn.evaluate(trained(positions=0), baselines=[])
        found["positions=0"] = next(iter(without.negatives.values()))["pint"]
    if question.world:
        found["truth"] = {"all": truth_figures(name, seed)}
    return {
        "question": name, "seed": seed, "figures": found, "ahead": ahead, "settings": run.settings.to_dict(),
        "seconds": round(time.process_time() - begin), **circumstances(),
    }  # fmt: skip


def ranked(runs: dict[str, Run], most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures of runs and of the recurrency baselines on the same questions by relation; and how far the MRR of the
    first is ahead of the others', with a 95 % interval from a bootstrap over distinct triples, whose facts recur."""
    first = next(iter(runs.values()))
    parts, task = first.parts, first.task
    before = parts.before(parts.test)
    streams = {name: run.new_stream() for name, run in runs.items()}
    for stream in streams.values():
        stream.observe(before)
    streams |= {name: task.baseline_stream(name, first, parts, first.schema, before) for name in task.baselines}  # type: ignore[attr-defined]
    ranks = {name: task.ranks(stream, parts.test, parts, most) for name, stream in streams.items()}  # type: ignore[attr-defined]
    new, mine = ranks["pint"][1], ranks["pint"][0][0]
    query, chosen = (
        both_directions(parts.test),
        np.linspace(0, len(parts.test) - 1, min(most, len(parts.test))).astype(np.int64),
    )
    assert query.given is not None
    triples = np.stack([query.src, query.given[:, 0].astype(np.int64), query.dst])[:, chosen]
    _, triple = np.unique(triples, axis=1, return_inverse=True)
    triple, rng = np.tile(triple.ravel(), 2), np.random.default_rng(0)
    many = np.bincount(triple)
    drawn = rng.multinomial(len(many), np.full(len(many), 1 / len(many)), 2_000)
    ahead = {}
    for name in list(streams)[1:]:
        gain = np.bincount(triple, 1 / mine - 1 / ranks[name][0][0])
        low, high = np.quantile((drawn @ gain) / (drawn @ many), [0.025, 0.975]).tolist()
        ahead[name] = [float(gain.sum() / many.sum()), low, high]
    return {name: by_novelty(found[0][0], new, rank_metrics) for name, found in ranks.items()}, ahead


def truth_figures(name: str, seed: int) -> dict[str, Any]:
    """The figures of a world's own best answer to the test part's questions. It says the same of many, so that they are
    put in a random order: figures are the mean over `ORDERS` of them."""
    question = QUESTIONS[name]
    settings = Settings.of({"model": {"name": "pint"}, "task": question.task})
    run = Run(settings, seed, question.log(Path(), seed), settings.make_model())
    parts, task, world = run.parts, run.task, COLUMN_WORLDS[name]()
    asked, _, truth = task.questions(parts.test, parts)  # type: ignore[attr-defined]
    best = world.truth(run.log, seed)[parts.test.first : parts.test.first + len(parts.test)][asked]
    if getattr(task, "values", False):
        return dict(task.figures(Answers(np.repeat(best[:, None], task.outputs, 1), truth)))  # type: ignore[attr-defined]
    answers = np.log(np.clip(best if best.ndim > 1 else np.stack([1 - best, best], 1), 1e-12, 1))
    rng = np.random.default_rng(seed)
    found = [
        task.figures(Answers(answers + 1e-9 * rng.random(answers.shape), truth))  # type: ignore[attr-defined]
        for _ in range(ORDERS)
    ]
    return {figure: float(np.mean([one[figure] for one in found])) for figure in found[0]}


def rows(path: Path = RESULTS) -> dict[tuple[str, int], dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {(row["question"], row["seed"]): row for row in map(json.loads, lines)}


def of_seeds(found: list[dict[str, Any]], model: str, figure: str, group: str = "all") -> dict[int, float]:
    """A figure of a model by seed; shares in percent."""
    scale = 1 if figure in (*SMALLER_IS_BETTER, "r2") else 100
    return {row["seed"]: scale * row["figures"][model][group][figure] for row in found if model in row["figures"]}


def told(values: dict[int, float], digits: int) -> str:
    if not values:
        return ""
    spread = f" ± {stdev(values.values()):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values.values()):.{digits}f}{spread}"


def best_row(found: list[dict[str, Any]], names: list[str], figure: str) -> str:
    sign = -1 if figure in SMALLER_IS_BETTER else 1
    return max(names, key=lambda name: sign * mean(of_seeds(found, name, figure).values()))


def lines(every: dict[tuple[str, int], dict[str, Any]]) -> Iterator[list[str]]:
    """A line for each question and figure, and for yago also of the questions that touch a new node."""
    for name, question in QUESTIONS.items():
        found = [row for (asked, _), row in sorted(every.items()) if asked == name]
        if not found:
            continue
        ours = ("pint", "positions=0", "boosted", "truth")
        free = [model for model in found[0]["figures"] if model not in ours]
        best = best_row(found, free, question.shown[0])
        groups = ("all", "new") if "mrr" in question.shown else ("all",)
        for group in groups:
            for figure in question.shown:
                digits = 3 if figure in (*SMALLER_IS_BETTER, "r2") else 2 if "mrr" in question.shown else 1
                mine = of_seeds(found, "pint", figure, group)
                cells = [told(of_seeds(found, model, figure, group), digits) for model in ours[:3]]
                ahead = [
                    str(Paired.of(mine, of_seeds(found, model, figure, group))) if model in found[0]["figures"] else ""
                    for model in ("positions=0", "boosted", best)
                ]
                cells += [f"{told(of_seeds(found, best, figure, group), digits)} ({best})"]
                cells += [told(of_seeds(found, "truth", figure), digits) if group == "all" else ""]
                yield [f"{name}{', new nodes' if group == 'new' else ''}", figure, str(len(found)), *cells, *ahead]


HEADER = [
    "question", "figure", "seeds", "PINT", "positions=0", "boosted", "best row without training", "truth",
    "PINT - positions=0", "PINT - boosted", "PINT - best row",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, help="where runs are kept, to be continued")
    parser.add_argument("--show", action="store_true", help="print what is there")
    options = parser.parse_args()
    if options.show:
        every = rows(options.results)
        print("\n".join("| " + " | ".join(line) + " |" for line in (HEADER, *lines(every))))
        for (name, seed), row in sorted(every.items()):
            for other, (gain, low, high) in row.get("ahead", {}).items():
                by = f"{100 * gain:+.2f} ({100 * low:+.2f} to {100 * high:+.2f} by a bootstrap over distinct triples)"
                print(
                    f"{name}, seed {seed}, {row['figures']['pint']['all']['events']:,} questions: MRR {by} of {other}"
                )
        print(made_by(every.values()))
        return
    for name in options.only:
        for seed in options.seeds:
            if (name, seed) in rows(options.results):
                continue
            row = measured(name, seed, options.data_folder, options.runs)
            with open(options.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(name, seed, f"{row['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
