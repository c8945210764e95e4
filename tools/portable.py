"""The suite again, as other machines would run it: other arithmetic, other threads, other places.

    python tools/portable.py                     every way, the tests of `make test`
    python tools/portable.py plain-1 -m learning one way; what follows goes to pytest

Each way prints the last line of pytest. A processor without wide vectors adds in another order than this one, so what
training makes differs from the third digit on; tests must not care. (`plain` is torch's and MKL's arithmetic without
vector instructions, `generic` that of our kernels.) `elsewhere` is a copy in a path with a space, without ../shared and
without Chromium, in another time zone and an ASCII locale, with SIGINT ignored as under nohup.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
GENERIC = {"NUMBA_CPU_NAME": "generic"}
TWO = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
"""Two processes of two threads each: where there are two cores, waiting threads that spin take them from the others."""
WAYS = {
    "plain-1": PLAIN | {"OMP_NUM_THREADS": "1"},
    "plain-2": PLAIN | TWO,
    "generic-1": GENERIC | {"OMP_NUM_THREADS": "1"},
    "generic-2": GENERIC | TWO,
    "elsewhere": {"TZ": "Asia/Kathmandu", "LC_ALL": "C"},
}


def run(way: str, more: list[str], scratch: Path) -> bool:
    """Run the suite one way; whether it passed."""
    own, root = os.environ | WAYS[way], ROOT
    if "NUMBA_CPU_NAME" in own:  # code for another processor is not to be mixed with ours
        own["NUMBA_CACHE_DIR"] = str(scratch / "generic")
    if way == "elsewhere":
        root = scratch / "a folder with a space" / "pintgn"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, tracked.split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        own["PYTHONPATH"] = str(root / "src")
        own["PATH"] = str(without_a_browser(scratch / "bin"))
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    begun = time.monotonic()
    try:
        command = [sys.executable, "-m", "pytest", "-n", "2", *more]
        done = subprocess.run(command, cwd=root, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        if way == "elsewhere":
            signal.signal(signal.SIGINT, before)
    lines = done.stdout.rstrip().splitlines() or ["nothing was printed"]
    if done.returncode:
        print("\n".join(lines[-60:]))
    print(f"{way:10}  {lines[-1]}  ({time.monotonic() - begun:.0f} s)", flush=True)
    return done.returncode == 0


def without_a_browser(folder: Path) -> Path:
    """A folder of links to every program on the PATH but Chromium and its driver."""
    folder.mkdir()
    for programs in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in programs.iterdir() if programs.is_dir() else ():
            if not program.name.startswith("chrom") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


def main() -> None:
    asked = sys.argv[1:]
    count = next((k for k, word in enumerate(asked) if word not in WAYS), len(asked))
    ways, more = asked[:count] or list(WAYS), asked[count:]
    with tempfile.TemporaryDirectory() as scratch:
        failed = [way for way in ways if not run(way, more, Path(scratch))]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
