"""How long the first use takes: `pintgn demo` with an empty cache, as it is and without help, and the second time.

Alternating, so that a busy machine slows both. `--old FOLDER` adds the same for another checkout of the project.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pintgn.formatting import text_table

ROOT = Path(__file__).parents[1]


def demo(checkout: Path, cache: str, alone: bool) -> float:
    """Seconds that a demo takes."""
    with tempfile.TemporaryDirectory() as folder:
        own = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pintgn", "demo", "-o", folder]
        if alone:  # on one core nothing is compiled ahead
            command = ["taskset", "-c", "0", *command]
        begun = time.perf_counter()
        subprocess.run(command, env=own, check=True, capture_output=True)
        return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--old", type=Path, help="another checkout, measured in the same run")
    asked = parser.parse_args()
    cases = [
        ("first use", ROOT, False, True),
        ("first use, one core", ROOT, True, True),
        ("second use", ROOT, False, False),
    ]
    if asked.old:
        cases += [("old: first use", asked.old, False, True), ("old: second use", asked.old, False, False)]
    seen: dict[str, list[float]] = {case[0]: [] for case in cases}
    with tempfile.TemporaryDirectory() as kept:
        for checkout in {case[1] for case in cases}:
            demo(checkout, kept, False)
        for _ in range(asked.runs):
            for name, checkout, alone, empty in cases:
                with tempfile.TemporaryDirectory() as cache:
                    seen[name].append(demo(checkout, cache if empty else kept, alone))
    wall = {name: statistics.median(times) for name, times in seen.items()}
    rows = []
    for name in seen:
        more = wall[name] - wall["old: second use" if name.startswith("old") else "second use"]
        rows.append([name, f"{wall[name]:.1f} s", f"{more:.1f} s"])
    print(text_table(["pintgn demo", "wall", "compiling"], rows))
    if asked.old:
        before, now = wall["old: first use"] - wall["old: second use"], wall["first use"] - wall["second use"]
        print(f"\nCompiling took {before:.1f} s and takes {now:.1f} s, {before / now:.1f} times less.")


if __name__ == "__main__":
    main()
