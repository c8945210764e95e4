"""The wheel as a stranger meets it: built, installed into an empty environment, used outside the checkout.

python tools/release.py               # with the versions of constraints.txt
python tools/release.py CONSTRAINTS   # held to another file, as `make versions` does with nothing pinned but torch
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


def say(text: str) -> None:
    print(f"release: {text}", flush=True)


def main() -> None:
    constraints = sys.argv[1] if sys.argv[1:] else str(ROOT / "constraints.txt")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", name, str(ROOT)], check=True
        )
        (wheel,) = folder.glob("*.whl")
        say(f"built {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
        venv.create(folder / "env", with_pip=True)
        python = str(folder / "env" / "bin" / "python")
        subprocess.run([python, *PIP, "install", "-c", constraints, str(wheel)], check=True)
        subprocess.run([python, *PIP, "check"], check=True)
        say("installed into an empty environment")

        def pintgn(*words: str) -> str:
            own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HOME": name}
            command = [str(folder / "env" / "bin" / "pintgn"), *words]
            done = subprocess.run(command, cwd=folder, env=own, stdout=subprocess.PIPE, text=True, check=True)
            return done.stdout

        shown = pintgn("demo")
        assert (folder / "demo" / "report.html").exists(), "the demo has a report"
        say("pintgn demo\n" + shown.rstrip())
        pintgn("simulate", "repeat", "--events", "2000", "-o", "log.csv")
        made = json.loads(pintgn("train", "log.csv", "--epochs", "2", "-o", "run", "--json"))
        assert (folder / "run" / "report.html").exists(), "a trained run has a report"
        assert made["test"]["all"]["events"] > 0, made
        assert json.loads(pintgn("recommend", "run", "--src", "0", "--json")), "a trained run recommends"
        say("pintgn train and recommend")


if __name__ == "__main__":
    main()
