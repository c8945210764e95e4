"""Will this member answer, comment on a question or comment on an answer, now that they turn to that one?

The trees know, strictly before the event, the shares of kinds and the newest kinds of both ends, of the pair in both
directions and of everybody, over windows and ever, and how long ago each was.
"""

from __future__ import annotations

import numpy as np

from benchmarks.jobs.common import DAY, Asked, Found, Job, Sums
from benchmarks.jobs.mathoverflow_return import KINDS, read


def columns(asked: Asked) -> np.ndarray:  # (e, w)
    log, t = asked.log, asked.log.t
    kind = [(asked.frame["kind"] == one).to_numpy().astype(np.float64) for one in KINDS]
    pair, back = log.src * np.int64(log.nodes) + log.dst, log.dst * np.int64(log.nodes) + log.src
    pairs = np.unique(np.concatenate([pair, back]), return_inverse=True)[1].astype(np.int64)
    pair, back = pairs[: len(t)], pairs[len(t) :]
    number = np.argmax(kind, 0)
    found = [log.src == log.dst, t / DAY, t % DAY / 3_600]
    ends = [(log.src, log.src), (log.dst, log.dst), (log.src, log.dst), (log.dst, log.src), (pair, pair), (pair, back)]
    for of, asks in ends:  # who acted or was turned to in the past; about whom is asked
        sums = Sums(of, t, *kind)
        order = np.lexsort((t, of))
        for window in (DAY / 24, DAY, 30 * DAY, None):
            some = sums(asks, t, None if window is None else t - int(window))
            found += [some[:, 0], *((some[:, k] + 0.33) / (some[:, 0] + 1) for k in (1, 2, 3))]
        for back_to in (1, 2, 3):
            at = sums.newest(asks, t, back_to)
            found += [np.where(at >= 0, number[order[at]], -1), sums.since(asks, t, back_to)]
        for k in range(3):  # the newest of each kind
            found.append(Sums(of[kind[k] > 0], t[kind[k] > 0]).since(asks, t))
    found += list(Sums(np.zeros_like(pair), t, *kind)(np.zeros_like(pair), t, t - DAY).T)
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    words = [str(word) for word in asked.task.words]  # the task's order of classes
    assert sorted(words) == sorted(KINDS)
    x = columns(asked)
    return asked.trees(x, seed, objective="multiclass", num_class=3, learning_rate=0.1, min_data_in_leaf=200)


JOB = Job(
    name="mathoverflow_kind",
    asks="Will this member answer, comment on a question or comment on an answer?",
    read=read,
    fit={"predict": "kind"},
    figure="log_loss",
    baselines={"LightGBM": lightgbm},
    smaller=True,
)
