"""Reproducibility: the same run twice is the same to the last bit. Threads, deterministic algorithms, seeds."""

from __future__ import annotations

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
