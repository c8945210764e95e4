"""The end of a run: calibrate on validation, measure on test, observe everything, keep the stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pintgn import compiled
from pintgn.events.log import EventLog
from pintgn.learn import paper
from pintgn.learn.calibration import Calibration, expected_error, next_slope
from pintgn.learn.measure import Compared, compare, heuristic_streams, ranked_in_part, score_part
from pintgn.learn.metrics import Metrics, Scores
from pintgn.learn.negatives import QUESTION, Drawn, Negatives, draw
from pintgn.learn.progress import Progress
from pintgn.learn.protocol import scored_events
from pintgn.learn.ranking import Candidates
from pintgn.learn.run import Run
from pintgn.models.base import eval_mode
from pintgn.positions.capacity import give_back
from pintgn.stream import Stream
from pintgn.stream.core import PAIRS_AT_ONCE

NEXT_EVENTS, NEXT_AMONG = 500, 100
"""Newest events of validation by which `next_slope` is fitted, and the destinations that each is ranked among."""


def finish(run: Run, ready: Stream | None, negatives: Negatives | None, progress: Progress) -> None:
    """Measure the model with the weights that it has, which validation chose; the stream ends after the last event.

    `ready` has observed the training part, and is used up.
    """
    started = compiled.working_time()
    progress({"phase": "test"})
    found = catch_up(run, ready, negatives, measure_test=True)
    if run.answers:
        progress({"phase": "heuristics"})
        run.task.measure_beside(run, found, negatives)
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


def measure_links_beside(run: Run, test_scores: Scores, negatives: Negatives | None) -> None:
    """Calibration on the test part, figures by the papers' protocol where that is asked, and the training-free rows."""
    assert run.calibration is not None
    run.calibration_error = expected_error(run.calibration, test_scores)
    parts = run.parts
    if run.settings.train.protocol == "paper":
        trained = run.new_stream()
        trained.observe(parts.trained)
        figures = paper.measure(trained, parts, parts.test, [negatives or "random"], run.seed).figures
        run.test = next(iter(figures.values()))
    run.heuristics = measure_heuristics(run, negatives or "random")


def measure_heuristics(run: Run, kind: str | Negatives) -> dict[str, dict[str, Metrics]]:
    """Test figures of the training-free models, by the protocol and negatives of the run."""
    parts, test = run.parts, run.parts.test
    as_paper, before = run.settings.train.protocol == "paper", parts.before(test)
    drawn = {"random": draw(kind, parts.until(test), test, run.seed, before)}
    found = {}
    known = None if as_paper else run.stream.history  # of the whole log: the same contacts and features
    observed = parts.trained if as_paper else before
    for name, stream in heuristic_streams(parts, run.schema, observed, run.settings.name, known):
        if as_paper:
            figures = paper.measure(stream, parts, test, [kind], run.seed).figures
        else:
            figures = compare(stream, test, drawn, parts.is_new(scored_events(test))).figures
        found[name] = next(iter(figures.values()))
    return found


def peak_memory() -> int | None:
    """The most memory that this process has held so far, in bytes; None where the system does not say.

    Linux counts what the process that started this one held as its own in `ru_maxrss`, but not in VmHWM.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def catch_up(
    run: Run, ready: Stream | None = None, negatives: Negatives | None = None, measure_test: bool = False
) -> Any:
    """Give a run its stream, after the whole log, and its calibration; with `measure_test`, its test figures too.

    Also how a run that was interrupted becomes usable: by whatever weights were the best so far.
    """

    def after_training() -> Stream:
        run._stream = ready
        give_back()
        if run._stream is None:
            run._stream = run.new_stream()
            run._stream.observe(run.parts.train)
        return run._stream

    if run.answers:
        return run.task.catch_up(run, after_training, negatives, measure_test)
    after_training().observe(run.parts.log[len(run.parts.train) :])
    return None


def catch_up_with_links(
    run: Run, after_training: Callable[[], Stream], negatives: Negatives | None, measure_test: bool
) -> Scores | None:
    """Calibration of links by validation and, if wanted, the test figures; returns the scores behind them."""
    parts = run.parts
    drawn = drawn_for(run, parts.val, negatives, run.model.questions)  # takes memory itself, so it comes first
    stream = after_training()
    calibrate(run, stream, drawn)
    del drawn
    give_back()
    scores = None
    if measure_test:
        found = replay(stream, run, parts.test, negatives)
        run.test, scores = found.figures["random"], found.scores["random"]
    else:
        stream.observe(parts.test)
    return scores


def calibrate(run: Run, stream: Stream, drawn: dict[str, Drawn]) -> None:
    """How logits become probabilities, by the validation part, through which the stream moves once: its newest events
    are scored and ranked in the same pass, so that no second stream is needed."""
    val, model = run.parts.val, run.model
    earlier, newest = _newest(val)
    queries = [scored_events(val).query, *(one.query for one in drawn.values())]
    done = len(scored_events(earlier))
    found = [score_part(stream, earlier, [query[:done] for query in queries])] if len(earlier) else []
    among, first, ranked = Candidates(run.parts.until(val), newest, NEXT_AMONG, run.seed), done, []
    with eval_mode(model):
        for batch in newest.batches(max(1, PAIRS_AT_ONCE // (among.count + 1))):
            events = scored_events(batch)
            end = done + len(events)
            others, valid = among(done - first, end - first)
            wide = np.concatenate([events.dst[:, None], others], 1)
            asked = events.query[np.repeat(np.arange(len(events)), wide.shape[1])].toward(wide.ravel())
            *scores, z = stream.replay(batch, [*(query[done:end] for query in queries), asked])
            found.append([one.numpy(force=True) for one in scores])
            ranked.append((model.answer(z, "anyone").numpy(force=True).reshape(wide.shape), valid))
            done = end
    positive, *negative = (np.concatenate(column) for column in zip(*found, strict=True))
    calibrations = [
        Calibration.of(Scores(model.answer(positive, against), model.answer(z, against)))
        for z, against in zip(negative, (QUESTION.get(kind, "anyone") for kind in drawn), strict=True)
    ]
    run.calibration, run.calibration_known = calibrations[0], (*calibrations, None)[1]
    run.next_slope = next_slope(*(np.concatenate(column) for column in zip(*ranked, strict=True)))


def _newest(val: EventLog) -> tuple[EventLog, EventLog]:
    """Validation before and from the newest events on by which `next_slope` is fitted."""
    begin = int(val.group_starts[np.searchsorted(val.group_starts, max(len(val) - NEXT_EVENTS, 0), "right") - 1])
    return val[:begin], val[begin:]


def fit_next_slope(stream: Stream, run: Run) -> float:
    """How logits become probabilities of being the next, by the newest events of validation; the stream, which has
    observed the training part, is used up."""
    val = run.parts.val
    earlier, newest = _newest(val)
    stream.observe(earlier)
    among = Candidates(run.parts.until(val), newest, NEXT_AMONG, run.seed)
    ranked = list(ranked_in_part(stream, newest, among))
    return next_slope(*(np.concatenate(column) for column in zip(*ranked, strict=True)))


def replay(
    stream: Stream, run: Run, part: EventLog, negatives: Negatives | None = None, questions: Sequence[str] = ("anyone",)
) -> Compared:
    """A part against negatives that are the same for every model and epoch, random ones and, where that is asked,
    historical ones; the stream moves through it."""
    drawn = drawn_for(run, part, negatives, questions)
    return compare(stream, part, drawn, run.parts.is_new(scored_events(part)))


def drawn_for(
    run: Run, part: EventLog, negatives: Negatives | None = None, questions: Sequence[str] = ("anyone",)
) -> dict[str, Drawn]:
    """Negatives of a part for `replay`."""
    parts, kinds = run.parts, {"random": negatives or "random"}
    if "known" in questions:
        kinds["historical"] = "historical"
    return {name: draw(kind, parts.until(part), part, run.seed, parts.before(part)) for name, kind in kinds.items()}
