"""Whether the tests would notice: one line at a time is changed, and the tests that run it should fail.

    make mutants                                       # 200 changes, drawn by a fixed seed; stop at any time and go on
    python tools/mutants.py --count 10 --only learn/   # a few, in one place
    python tools/mutants.py --show                     # what has been found so far, in results/mutants.jsonl

Everything happens in a copy of the tree under .mutants/. First the map of which tests run which functions is made
(`mutant_map.py`), once for each version of a file of tests; remove .mutants/ to begin anew. A change is *killed* when a
test fails, crashes or takes far too long. It has *survived* when all tests that run its function pass. A survivor that
no test can kill, because the program does the same, is listed in equivalent_mutants.toml with the reason.

`mutmut` and `cosmic-ray` do not serve: mutmut changes no decorated function, which all kernels are, and chooses among
changes at run time, which compiled code cannot; cosmic-ray runs one command for all changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.mutant_map import Known, callers_of_kernels, chosen_tests, kernel_modules_upon, read_map  # noqa: E402
from tools.mutations import Mutant, compiles, mutants  # noqa: E402

WHERE = (
    "neighbors/kernels*.py", "positions/kernels*.py", "models/kernels*.py", "events/kernels*.py", "stream/*.py",
    "learn/negatives.py",
    "learn/evaluate.py", "learn/protocol.py", "learn/paper.py", "serve/sqlite.py", "serve/requests.py",
)  # fmt: skip
"""The files that hold promises."""
SPEED_ONLY = (
    "models/kernels_trees.py:aligned", "models/kernels_trees.py:padded_width", "events/kernels.py:hash_text",
)  # fmt: skip
"""Functions that decide how fast something is and nothing else: where memory lies, how well a hash spreads. A benchmark
would notice; no test can."""
COPIED = ("src", "tests", "tools", "paper", "docs", "examples", "pyproject.toml", "README.md", "CHANGELOG.md")
SEED, COUNT = 18, 200
FIRST, ALL = 20.0, 120.0
"""Seconds of tests that are run at first, the narrowest, and in all; as long as they take without a change."""
GRACE = 180.0
"""Seconds beyond three times that, after which tests count as stuck; kernels are compiled meanwhile."""
AIM, MOST_EQUIVALENT = 0.95, 0.05


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended, too
    package = ROOT / "src" / "pintgn"
    drawn = draw(package, options.only, options.count, options.seed)
    done = {found["name"]: found for found in read_lines(options.results)}
    if not options.show:
        benches: SimpleQueue[Bench] = SimpleQueue()
        first = Bench(options.folder)
        known = first.map(options.tests)
        for bench in (first, *(Bench(options.folder / f"{k}") for k in range(2, options.workers + 1))):
            benches.put(bench)
        callers = callers_of_kernels(package)

        def judged(mutant: Mutant) -> dict[str, Any]:
            if mutant.name in done and (done[mutant.name]["status"] == "killed" or equivalent(mutant)):
                return done[mutant.name]  # a survivor is judged again: there may be a test by now
            bench = benches.get()
            try:
                found = bench.judge(mutant, chosen_tests(mutant.path, mutant.function, known, callers))
            finally:
                benches.put(bench)
            with options.results.open("a") as file:
                file.write(json.dumps(found) + "\n")
            return found

        with ThreadPoolExecutor(options.workers) as pool:
            for number, (mutant, found) in enumerate(zip(drawn, pool.map(judged, drawn), strict=True), 1):
                done[mutant.name] = found
                print(f"{number:4}/{len(drawn)}  {found['status']:9} {found['seconds']:6.1f} s  {mutant}", flush=True)
    return summary([(one, done[one.name]) for one in drawn if one.name in done], len(drawn))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=COUNT, help="how many changes are drawn")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="files whose path begins so, such as learn/ or stream/core.py")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="the tests to choose from")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".mutants", help="where the copy, map and caches are kept"
    )
    parser.add_argument("--results", type=Path, help="a line for each change; what is there is not done again")
    parser.add_argument("--workers", type=int, default=1, help="how many are judged at the same time")
    parser.add_argument("--show", action="store_true", help="the summary of what is there; runs nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.results = options.results or ROOT / "results" / "mutants.jsonl"
    return options


def draw(package: Path, only: str, count: int, seed: int) -> list[Mutant]:
    """Changes drawn by a seed from all that could be made, each as likely as any other.

    A hash decides about each on its own, so what changes in one function does not draw others elsewhere.
    """
    paths = [path for pattern in WHERE for path in sorted(package.glob(pattern)) if path.name != "__init__.py"]
    chosen = [path for path in paths if path.relative_to(package).as_posix().startswith(only)]
    possible = (mutant for path in chosen for mutant in mutants(path, package))
    every = [mutant for mutant in possible if f"{mutant.path}:{mutant.function}" not in SPEED_ONLY]
    every.sort(key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())
    sources = {path.relative_to(package).as_posix(): path.read_text() for path in chosen}
    found = (one for one in every if compiles(one.applied(sources[one.path])))
    return [one for one, _ in zip(found, range(count), strict=False)]


class Bench:
    """A copy of the tree in which one change is made at a time."""

    def __init__(self, folder: Path):
        self.folder, self.tree, self.cache = folder, folder / "tree", folder / "cache"
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, self.tree / name)
        self.package = self.tree / "src" / "pintgn"
        self.original = self._key()

    def map(self, tests: list[str]) -> list[Known]:
        """Which tests run what; files that have been looked at, and not changed since, are not run again."""
        path, seen_path = self.folder / "map.jsonl", self.folder / "mapped.json"
        seen = json.loads(seen_path.read_text()) if seen_path.exists() else {}
        files = sorted({str(one.relative_to(self.tree)) for test in tests for one in test_files(self.tree / test)})
        for number, name in enumerate(files, 1):
            stamp = hashlib.sha256((self.tree / name).read_bytes()).hexdigest()
            if seen.get(name) != stamp:
                print(f"map {number}/{len(files)}  {name}", flush=True)
                command = ["-p", "tools.mutant_map", "--map", str(path), "-p", "no:warnings", name]
                self._pytest(command, timeout=3_600)
                seen[name] = stamp
                seen_path.write_text(json.dumps(seen))
        known = [one for one in read_map(path) if one.test.partition("::")[0] in files]
        print(f"{len(known):,} tests that pass are known, of {len(files)} files", flush=True)
        return known

    def judge(self, mutant: Mutant, tests: list[Known]) -> dict[str, Any]:
        """Run the tests of a change, the narrowest first, until one fails."""
        path, began = self.package / mutant.path, time.monotonic()
        source, status, ran, spent = path.read_text(), "survived", 0, 0.0
        path.write_text(mutant.applied(source))
        try:
            self._keep_other_code(mutant.path)
            for limit in (FIRST, ALL):
                some = []
                while ran + len(some) < len(tests) and (spent < limit or not some):
                    some.append(tests[ran + len(some)])
                    spent += some[-1].seconds
                if some and not self._passes(some):
                    status = "killed"
                    break
                ran += len(some)
        finally:
            path.write_text(source)
            if self._key_folder != self.cache / "pintgn" / self.original:
                shutil.rmtree(self._key_folder, ignore_errors=True)
        status = status if tests else "untested"
        seconds = round(time.monotonic() - began, 1)
        return {"name": mutant.name, "status": status, "seconds": seconds, "tests": len(tests)} | asdict(mutant)

    def _passes(self, tests: list[Known]) -> bool:
        timeout = GRACE + 3 * sum(one.seconds for one in tests)
        return self._pytest(["-x", "-q", "-p", "no:cacheprovider", *(one.test for one in tests)], timeout) == 0

    def _pytest(self, command: list[str], timeout: float) -> int | None:
        """The exit code; None where it took too long. All that it started ends with it."""
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", "pytest", *command],
            cwd=self.tree, env=self._environment(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        ended = None
        try:
            until = time.monotonic() + timeout
            while ended is None and time.monotonic() < until:
                # seen, not yet taken away: so long as it is there nobody else can have its number
                ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
                time.sleep(0 if ended else 0.05)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode if ended else None

    def _environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": f"{self.tree / 'src'}", "NUMBA_CACHE_DIR": f"{self.cache}", "OMP_NUM_THREADS": "1"}
        return os.environ | own | {"PYTHONDONTWRITEBYTECODE": "1"}

    # -- machine code ------------------------------------------------------------------------------------------------

    def _key(self) -> str:
        """Under which name the tree as it is keeps its machine code."""
        code = "from pintgn import compiled; print(compiled.key())"
        return subprocess.check_output([sys.executable, "-c", code], env=self._environment(), text=True).strip()

    def _keep_other_code(self, changed: str) -> None:
        """A changed kernel source is another key, under which everything would be compiled again. What neither is in
        the changed file nor imports it, directly or not, is the same code: it is linked."""
        self._key_folder = self.cache / "pintgn" / self._key()
        kept = self.cache / "pintgn" / self.original
        if self._key_folder == kept or not kept.is_dir():
            return
        again = {one.removesuffix(".py").replace("/", ".") for one in kernel_modules_upon(self.package, changed)}
        self._key_folder.mkdir(parents=True, exist_ok=True)
        for file in kept.glob("*_*/*.nb?"):  # package_hash/module.function-line.…
            package, module = file.parent.name.rpartition("_")[0], file.name.partition(".")[0]
            if f"{package}.{module}" not in again:
                (self._key_folder / file.parent.name).mkdir(exist_ok=True)
                os.link(file, self._key_folder / file.parent.name / file.name)


def test_files(path: Path) -> list[Path]:
    return sorted(path.rglob("test_*.py")) if path.is_dir() else [path]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def equivalent(mutant: Mutant) -> str | None:
    """Why a change changes nothing, if the list says so."""
    listed = tomllib.loads((ROOT / "tools" / "equivalent_mutants.toml").read_text()).get("mutant", [])
    for one in listed:
        same = (one["path"], one["function"], one["before"], one["after"])
        if same == (mutant.path, mutant.function, mutant.before, mutant.after):
            line = (ROOT / "src" / "pintgn" / mutant.path).read_text().splitlines()[mutant.line - 1]
            if one.get("line", "") in line:
                return one["reason"]
    return None


def summary(judged: list[tuple[Mutant, dict[str, Any]]], drawn: int) -> int:
    """Counts, survivors and equivalents; 0 if all have been judged and enough were killed."""
    status = {one.name: told["status"] for one, told in judged}
    reasons = {one.name: reason for one, told in judged if told["status"] != "killed" and (reason := equivalent(one))}
    status |= dict.fromkeys(reasons, "equivalent")
    counts = Counter(status.values())
    print(f"\n{len(judged)} of {drawn} changes: " + ", ".join(f"{n} {word}" for word, n in sorted(counts.items())))
    for word in ("survived", "untested", "equivalent"):
        for one, told in judged:
            if status[one.name] == word:
                reason = f"\n             {reasons[one.name]}" if one.name in reasons else ""
                print(f"  {word:10} {one}  ({told['tests']} tests){reason}")
    worth = len(judged) - counts["equivalent"]
    share = counts["killed"] / worth if worth else 0.0
    print(f"killed: {100 * share:.1f} % of those that change anything (aim {100 * AIM:.0f} %)")
    enough = share >= AIM and counts["equivalent"] <= MOST_EQUIVALENT * max(len(judged), 1)
    return 0 if enough and len(judged) == drawn else 1


if __name__ == "__main__":
    sys.exit(main())
