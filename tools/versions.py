"""Run every test in two more environments: the lowest versions that pyproject.toml allows, and the newest there are.

    python tools/versions.py                     # both, in .venv-lowest and .venv-newest
    python tools/versions.py lowest -x -k theory # one of them, with arguments for pytest

Then the wheel, installed with nothing pinned but torch, outside the checkout (`release.py`).
Needs nothing but the standard library and pip. torch stays as constraints.txt pins it: where it is the only CPU build
to be had, any other would bring gigabytes of CUDA.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"([\w.-]+)>=([\w.]+)")


def requirements() -> Iterator[str]:
    """Every direct dependency and every extra's, as pyproject.toml has it; what an extra takes from others apart."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group in (project["dependencies"], *project["optional-dependencies"].values()):
        yield from (one for one in group if not one.startswith(f"{project['name']}["))


def lower_bounds() -> dict[str, str]:
    """The lowest version of each; anything but NAME>=VERSION is an error, because it would not be tested."""
    bounds = {}
    for one in requirements():
        found = REQUIREMENT.fullmatch(one)
        if found is None:
            sys.exit(
                f"pyproject.toml has {one!r}; it takes NAME>=VERSION, so that the lowest version can be installed."
            )
        bounds[found[1]] = found[2]
    return bounds


def pinned_torch() -> str:
    return next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))


def constraints(name: str) -> list[str]:
    """What pip is held to."""
    torch = pinned_torch()
    if name == "newest":
        print(f"{torch} also here: no other CPU build is to be had, and any other would bring gigabytes of CUDA")
        return [torch]
    bounds = lower_bounds()
    return [torch, *(f"{package}=={version}" for package, version in bounds.items() if package != "torch")]


def installed(name: str) -> Path:
    """The environment of that name with pintgn in it; created where it is missing, else brought up to date."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    held = folder / "constraints.txt"
    held.write_text("\n".join(constraints(name)) + "\n")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", held, "-e", ".[dev]"]
    subprocess.run([*command, "--upgrade", "--upgrade-strategy", "eager"], cwd=ROOT, check=True)
    return python


def tested(name: str, arguments: list[str]) -> tuple[bool, str]:
    """Whether every test passes there, and pytest's last line."""
    python = installed(name)
    # what this environment's Numba compiles is its own, and tests call what is installed here
    environment = os.environ | {"NUMBA_CACHE_DIR": str(python.parents[1] / "numba"), "PYTHONPATH": str(ROOT / "src")}
    command = [python, "-m", "pytest", "-n", "2", "-m", "", *arguments]  # slow ones, too
    done = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    last = ""
    for line in done.stdout or ():
        print(line, end="", flush=True)
        last = line.strip() or last
    return done.wait() == 0, last


def wheel_works(environment: Path) -> tuple[bool, str]:
    """Whether the wheel, held to that environment's constraints, shows the demo and trains outside the checkout."""
    command = [environment / "bin" / "python", ROOT / "tools" / "release.py", environment / "constraints.txt"]
    passed = subprocess.run(command).returncode == 0
    return passed, "pintgn demo, train and recommend outside the checkout"


def main() -> int:
    names = [name for name in ("lowest", "newest") if name in sys.argv[1:]] or ["lowest", "newest"]
    arguments = [word for word in sys.argv[1:] if word not in names]
    results = {name: tested(name, arguments) for name in names}
    if "newest" in names:
        results["unpinned wheel"] = wheel_works(ROOT / ".venv-newest")
    for name, (passed, last) in results.items():
        print(f"{name}: {'passed' if passed else 'FAILED'}: {last}")
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
