"""The same run twice is the same to the last bit: threads, algorithms, randomness, and stopping between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def reproducible(threads: int | None) -> Iterator[None]:
    """Deterministic algorithms and a fixed number of threads while it lasts; torch is left as it was found.

    The second of several threads looks up the next batch (`Stream.prefetch`), so torch computes with one less: with as
    many, each of its steps would wait for the one that the look-ups displace. Sums over threads depend on their number,
    so a run keeps the one that it began with. Global randomness (dropout) is reseeded before every step by `seed_step`
    and restored at the end.
    """
    before, mode, fill = torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.utils.deterministic
    filled = fill.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        if threads is not None and max(threads - 1, 1) != before:
            torch.set_num_threads(max(threads - 1, 1))
        # `torch.use_deterministic_algorithms` would do the same, and load torch's compiler: a second, and 70 MB
        torch.set_deterministic_debug_mode("error")
        fill.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        fill.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def step_rng(seed: int, epoch: int, step: int) -> np.random.Generator:
    """The randomness of one step is a function of its number, so that a checkpoint need not hold any."""
    return np.random.default_rng([seed, epoch, step])


def seed_step(seed: int, epoch: int, step: int) -> None:
    """Seed torch for one step; inside `reproducible` only."""
    number = int(np.random.SeedSequence([seed, epoch, step, 1]).generate_state(1, np.uint64)[0] >> 1)
    torch.default_generator.manual_seed(number)  # torch.manual_seed also writes down a stack trace for later, each time
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, taken between two steps."""


class Stopper:
    """Whether Ctrl-C has been pressed."""

    asked = False


@contextmanager
def interruptible() -> Iterator[Stopper]:
    """Take Ctrl-C between steps instead of in the middle of one; the second Ctrl-C takes effect at once.

    Where it is ignored (`nohup`, a job that a script puts in the background) it stays ignored.
    """
    stopper = Stopper()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # None: a handler that is not Python's
        yield stopper
        return

    def remember(number: int, frame: object) -> None:
        stopper.asked = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield stopper
    finally:
        signal.signal(signal.SIGINT, before)
