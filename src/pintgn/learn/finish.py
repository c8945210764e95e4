"""The end of a run: calibrate on validation, measure on test, observe everything, keep the stream."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from pintgn import compiled
from pintgn.events.log import EventLog
from pintgn.learn import paper
from pintgn.learn.calibration import Calibration, expected_error, next_slope
from pintgn.learn.measure import Compared, compare, heuristic_streams, ranked_in_part
from pintgn.learn.metrics import Metrics, Scores
from pintgn.learn.negatives import Negatives, draw
from pintgn.learn.progress import Progress
from pintgn.learn.protocol import scored_events
from pintgn.learn.ranking import Candidates
from pintgn.learn.run import Run
from pintgn.stream import Stream

NEXT_EVENTS, NEXT_AMONG = 500, 100
"""Newest events of validation by which `next_slope` is fitted, and the destinations that each is ranked among."""


def finish(run: Run, ready: Stream | None, negatives: Negatives | None, progress: Progress) -> None:
    """Measure the model with the weights that it has, which validation chose; the stream ends after the last event.

    `ready` has observed the training part, and is used up.
    """
    started = compiled.working_time()
    progress({"phase": "test"})
    test_scores = catch_up(run, ready, negatives, measure_test=True)
    if run.scores_links:
        assert test_scores is not None
        assert run.calibration is not None
        run.calibration_error = expected_error(run.calibration, test_scores)
        parts = run.parts
        if run.settings.train.protocol == "paper":
            trained = run.new_stream()
            trained.observe(parts.trained)
            figures = paper.measure(trained, parts, parts.test, [negatives or "random"], run.seed).figures
            run.test = next(iter(figures.values()))
        progress({"phase": "heuristics"})
        run.heuristics = measure_heuristics(run, negatives or "random")
    run.finished = True
    run.spent = {
        "training_seconds": sum(entry["seconds"] for entry in run.history),
        "testing_seconds": compiled.working_time() - started,
        "compiling_seconds": compiled.seconds(),
    }
    if (memory := peak_memory()) is not None:
        run.spent["peak_memory_bytes"] = memory
    if run.folder is not None:
        progress({"phase": "saving"})
        with run.folder.errors(run.folder / "stream"):
            run.stream.save(run.folder / "stream")
        run.folder.write_json("result.json", run.result())
    run.write_metrics()


def measure_heuristics(run: Run, kind: str | Negatives) -> dict[str, dict[str, Metrics]]:
    """Test figures of the training-free models, by the protocol and negatives of the run."""
    parts, test = run.parts, run.parts.test
    as_paper, before = run.settings.train.protocol == "paper", parts.before(test)
    drawn = {"random": draw(kind, parts.until(test), test, run.seed, before)}
    found = {}
    for name, stream in heuristic_streams(parts, run.schema, parts.trained if as_paper else before, run.settings.name):
        if as_paper:
            figures = paper.measure(stream, parts, test, [kind], run.seed).figures
        else:
            figures = compare(stream, test, drawn, parts.is_new(scored_events(test))).figures
        found[name] = next(iter(figures.values()))
    return found


def peak_memory() -> int | None:
    """The most memory that this process has held so far, in bytes; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def catch_up(
    run: Run, ready: Stream | None = None, negatives: Negatives | None = None, measure_test: bool = False
) -> Scores | None:
    """Give a run its stream, after the whole log, and its calibration; with `measure_test`, its test figures too.

    Also how a run that was interrupted becomes usable: by whatever weights were the best so far.
    """
    parts = run.parts
    stream = ready
    if stream is None:
        stream = run.new_stream()
        stream.observe(parts.train)
    run._stream = stream
    if not run.scores_links:
        stream.observe(parts.log[len(parts.train) :])
        return None
    run.next_slope = fit_next_slope(stream.fork(), run)
    val = replay(stream, run, parts.val, negatives, run.model.questions).scores
    run.calibration = Calibration.of(val["random"])
    run.calibration_known = Calibration.of(val["historical"]) if "historical" in val else None
    scores = None
    if measure_test:
        found = replay(stream, run, parts.test, negatives)
        run.test, scores = found.figures["random"], found.scores["random"]
    else:
        stream.observe(parts.test)
    return scores


def fit_next_slope(stream: Stream, run: Run) -> float:
    """How logits become probabilities of being the next, by the newest events of validation; the stream, which has
    observed the training part, is used up."""
    val = run.parts.val
    begin = int(val.group_starts[np.searchsorted(val.group_starts, max(len(val) - NEXT_EVENTS, 0), "right") - 1])
    newest = val[begin:]
    stream.observe(val[:begin])
    among = Candidates(run.parts.until(val), newest, NEXT_AMONG, run.seed)
    ranked = list(ranked_in_part(stream, newest, among))
    return next_slope(*(np.concatenate(column) for column in zip(*ranked, strict=True)))


def replay(
    stream: Stream, run: Run, part: EventLog, negatives: Negatives | None = None, questions: Sequence[str] = ("anyone",)
) -> Compared:
    """A part against negatives that are the same for every model and epoch, random ones and, where that is asked,
    historical ones; the stream moves through it."""
    parts, kinds = run.parts, {"random": negatives or "random"}
    if "known" in questions:
        kinds["historical"] = "historical"
    drawn = {name: draw(kind, parts.until(part), part, run.seed, parts.before(part)) for name, kind in kinds.items()}
    return compare(stream, part, drawn, parts.is_new(scored_events(part)))
