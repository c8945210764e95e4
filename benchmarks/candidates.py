"""How many of the best destinations are among the candidates from walks, and what ranking them saves.

    python benchmarks/candidates.py ../shared/data/wikipedia.parquet ../shared/data/digg_reply.parquet [--epochs 3]

Trains PINT with defaults, ranks every destination for sources drawn from the newest tenth of the log, and counts how
many of each source's best 1, 10 and 100 are candidates (`pintgn.live.candidates`), for several numbers of candidates.
Self-loops are left out, as `recommend` does.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import pintgn
from pintgn.live.candidates import Candidates
from pintgn.live.recommend import rank

BEST = (1, 10, 100)


def measure(path: str, epochs: int, sources: int) -> None:
    log = pintgn.read_events(path)
    live = pintgn.open(pintgn.fit("pint", log, epochs=epochs, progress=False))
    pool, when = np.sort(live.destinations.values), live.time_of()
    acting = np.unique(log.src[-len(log) // 10 :])
    src = np.random.default_rng(0).choice(acting, min(sources, len(acting)), replace=False)
    begin = time.perf_counter()
    logits = np.concatenate([
        rank(live, some, np.broadcast_to(pool, (len(some), len(pool))), when)
        for some in (src[k : k + 4] for k in range(0, len(src), 4))
    ])  # fmt: skip
    exact = time.perf_counter() - begin
    logits[pool == src[:, None]] = -np.inf
    best = pool[np.argsort(-logits, 1, kind="stable")[:, : max(BEST)]]
    print(f"{Path(path).stem}: {log!r}; {len(src)} sources, {len(pool):,} destinations, ranked in {exact:.1f} s")
    print(f"{'candidates':>10} {'mean':>6} {'s':>6} " + " ".join(f"{f'of {k}':>7}" for k in BEST))
    for count in (200, 500, 1_000, 2_000, 4_000):
        begin = time.perf_counter()
        found = Candidates(live, pool, when, count)(src)
        rank(live, src, found, when)
        seconds = time.perf_counter() - begin
        kept = [np.mean([np.isin(b[:k], f).mean() for b, f in zip(best, found, strict=True)]) for k in BEST]
        shares = " ".join(f"{100 * share:6.1f}%" for share in kept)
        print(f"{count:10,} {(found >= 0).sum(1).mean():6.0f} {seconds:6.2f} {shares}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--sources", type=int, default=300)
    options = parser.parse_args()
    for path in options.data:
        measure(path, options.epochs, options.sources)


if __name__ == "__main__":
    main()
