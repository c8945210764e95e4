"""Evaluation of runs: AP and AUC against several kinds of negatives, ranks among many, baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.display.html import paragraph
from pintgn.display.progress import counting, takes_progress
from pintgn.errors import BadFile, BadInput, UnknownName, suggest
from pintgn.formatting import plural
from pintgn.learn.figures_text import figures_table
from pintgn.learn.measure import OnBatch, observe_log
from pintgn.learn.metrics import LEAST, Metrics, mean_and_std
from pintgn.learn.negatives import KINDS, Negatives
from pintgn.learn.newer_events import longer_log
from pintgn.learn.notebook import figures_frame, figures_html
from pintgn.learn.protocol import PROTOCOLS, Parts
from pintgn.learn.run import Run
from pintgn.learn.tasks.link import ONE_SCORE
from pintgn.learn.tasks.task import Measurement
from pintgn.packages import data_frame
from pintgn.stream import Stream

MOST = 1_000_000
"""Events that are scored; of more, evenly taken stretches."""
Progress = Callable[[int, int, str], None]
Rows = dict[str, dict[str, Metrics]]
"""By model, then by all / seen / new."""


@dataclass(frozen=True)
class Evaluation:
    """Figures of a run and of its baselines, on one part of its log or on later events."""

    part: str  # test, val or later
    protocol: str
    negatives: dict[str, Rows]  # by kind of negatives
    fallback: dict[str, float] = field(default_factory=dict)  # share that is random for want of others
    ranking: Rows | None = None
    candidates: int | None = None  # destinations that each event was ranked against
    runs: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    events: int = 0  # how many were scored
    of_events: int = 0  # of how many that could be

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def blocks(self) -> Iterator[tuple[str, Rows]]:
        """Titles and figures of what was measured."""
        of = "" if self.runs == 1 else f", mean ± standard deviation of {self.runs} runs"
        protocol = ", measured as in the paper" if self.protocol == "paper" else ""
        part = "later events" if self.part == "later" else f"{self.part} part"
        if self.events < self.of_events:
            part += f" ({self.events:,} of {self.of_events:,} events, evenly taken)"
        for kind, rows in self.negatives.items():
            share = self.fallback.get(kind, 0.0)
            fell = f" ({100 * share:.1f} % fell back on random ones)" if share else ""
            what = f"{kind} negatives" if kind in (*KINDS, "own") else kind
            yield f"{part}, {what}{fell}{protocol}{of}", rows
        if self.ranking is not None:
            yield f"{part}, ranked against {self.candidates:,} destinations{of}", self.ranking

    def __repr__(self) -> str:
        return f"Evaluation({'; '.join(title for title, _ in self.blocks())})"

    def __str__(self) -> str:
        return "\n\n".join(f"{title}\n\n{figures_table(rows)}" for title, rows in self.blocks())

    def _repr_html_(self) -> str:
        return "".join(paragraph(title, strong=True) + figures_html(rows) for title, rows in self.blocks())

    def to_pandas(self) -> Any:
        """A frame with one row for each kind of negatives, model and group (all, seen, new); figures are fractions."""
        lines = [line for kind, rows in self.negatives.items() for line in figures_frame(rows, negatives=kind)]
        ranked = figures_frame(self.ranking, negatives=f"ranked, {self.candidates}") if self.ranking else []
        return data_frame(lines + ranked)


@takes_progress(counting("measuring", "events"))
def evaluate(
    run: Run | str | Path | Sequence[Run | str | Path],
    negatives: str | Negatives | Sequence[str | Negatives] | None = None,
    rank: int | str | None = None,
    *,
    part: str = "test",
    on: Any = None,
    protocol: str | None = None,
    baselines: Sequence[str] | None = None,
    seed: int = 0,
    most: int = MOST,
    device: str | None = None,
    progress: Progress | bool | None = None,
) -> Evaluation:
    """Evaluate a run (or several, then mean ± std) on a part of its log, or on events after it.

    Args:
        run: what `fit` returned, or its folder; a folder of several runs, or a list.
        negatives: `random`, `historical`, `inductive`, `per-event`, several of them, or a function of your own;
            `random` by default, nothing when only `rank` is given.
        rank: rank each event's destination against `"all"` destinations, or against so many.
        part: `test` or `val`.
        on: later events in place of a part: a file, frame, table or log with the columns of the run's log, whose events
            come after it. The run stays as it is; it observes each event after it has been scored, as in use.
        protocol: `stream` or `paper`; as the run was trained when not given.
        baselines: names of other models that are measured in the same way: the task's training-free rows by default.
            One that learns, such as `boosted`, is trained first: on the same parts, with its defaults and the run's
            seed.
        seed: of the negatives; the same for every model. Not the run's, so that runs are compared on the same ones.
        most: of more events than this, whole stretches at even distances are scored, and all are observed. By
            `protocol="paper"` all are scored.
        device: where runs of folders compute; as they were trained when not given.
        progress: True for a bar, or a function that is called with the events done, how many there are, and what is
            being measured.

    >>> import pintgn
    >>> run = pintgn.fit("edgebank", pintgn.simulate("repeat", events=400, seed=0))
    >>> found = pintgn.evaluate(run, ["random", "historical"], rank=10)
    >>> list(found.negatives), list(found.negatives["random"]), found.candidates
    (['random', 'historical'], ['edgebank', 'heuristic'], 10)
    """
    if most < LEAST:
        raise BadInput(f"most={most}; at least {LEAST} events are needed to measure by.")
    runs: Any = run if isinstance(run, list | tuple) else [run]
    found = [one for given in runs for one in _opened(given, device)]
    evaluations = []
    for k, one in enumerate(found):
        rows = () if k else one.task.baselines if baselines is None else baselines
        how = Measurement(
            **_measured_on(one, part, on, protocol), negatives=negatives, rank=rank, baselines=rows, seed=seed,
            most=most, progress=progress,
        )  # fmt: skip
        measured = one.task.evaluate(one, how)
        evaluations.append(Evaluation(how.part, how.protocol, settings=one.settings.to_dict(), **measured))
    return evaluations[0] if len(evaluations) == 1 else _mean(evaluations)


def _measured_on(run: Run, part: str, on: Any, protocol: str | None) -> dict[str, Any]:
    """What a run is evaluated on, and by which rules: fields of `Measurement`."""
    if run.folder is not None and not (run.finished or run.history):
        raise BadFile(
            f"the run in {run.folder.path} was stopped before its first checkpoint, so there is nothing to measure. "
            f"Continue it: pintgn train {run.folder.path} --resume."
        )
    chosen = run.settings.train.protocol if protocol is None else protocol
    if chosen not in PROTOCOLS:
        raise UnknownName(f"there is no protocol {chosen!r}.{suggest(chosen, PROTOCOLS)}")
    if on is not None:
        if protocol == "paper":
            raise BadInput("protocol='paper' measures a part of a run's own log; leave it out for later events.")
        return _later_events(run, on)
    if part not in ("val", "test"):
        raise BadInput(f"part={part!r}; it is 'val' or 'test': a model is not measured on what it was trained on.")
    events = run.parts.named(part)

    def ready(on_batch: OnBatch) -> Stream:
        stream = run.new_stream()
        observe_log(stream, run.parts.before(events), on_batch)
        return stream

    return {
        "part": part,
        "parts": run.parts,
        "events": events,
        "protocol": chosen,
        "schema": run.schema,
        "ready": ready,
    }


def _later_events(run: Run, on: Any) -> dict[str, Any]:
    """Events after a run's log, which the run meets in the state in which it would be used."""
    used = run.deployed
    whole = used.view(longer_log(run.log, on))
    known, events = whole[: len(run.log)], whole[len(run.log) :]
    if (count := len(events.scored_events)) < LEAST:
        raise BadInput(
            f"there is {plural(count, 'event')} after the run's log to measure by, which takes at least {LEAST}."
        )
    seen = np.pad(used.parts.seen, (0, whole.nodes - len(used.parts.seen)))
    parts = Parts(whole, known, known[:0], events, used.parts.trained, seen)
    found = {"part": "later", "parts": parts, "events": events, "protocol": "stream", "schema": used.schema}
    return found | {"ready": lambda on_batch: used.stream.fork()}


def _mean(several: list[Evaluation]) -> Evaluation:
    """The first run's evaluation with every figure of its model as (mean, std) over all."""

    def over(rows: list[Rows]) -> dict[str, Any]:
        model = next(iter(rows[0]))
        own = [row for row in (model, model + ONE_SCORE) if row in rows[0]]
        means = {row: {group: mean_and_std([one[row][group] for one in rows]) for group in rows[0][row]} for row in own}
        return rows[0] | means

    first = several[0]
    names = {evaluation.settings["model"]["name"] for evaluation in several}
    if len(names) > 1:
        raise BadInput(f"runs of {', '.join(sorted(names))} have no common mean; evaluate them one by one.")
    return replace(
        first,
        negatives={kind: over([one.negatives[kind] for one in several]) for kind in first.negatives},
        ranking=None if first.ranking is None else over([one.ranking for one in several if one.ranking is not None]),
        runs=len(several),
    )


def _opened(run: Run | str | Path, device: str | None) -> list[Run]:
    """A run, or all runs of a folder of several."""
    if isinstance(run, Run):
        return [run]
    folder = Path(run)
    inside = [path.parent for path in sorted(folder.glob("seed-*/run.json"))]
    if inside and not (folder / "run.json").exists():
        return [Run.open(one, device=device) for one in inside]
    return [Run.open(folder, device=device)]
