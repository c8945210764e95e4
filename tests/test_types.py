"""What a type checker makes of a user's script: real types, and a word about every mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import pintgn
from pintgn import interop, theory
from tests.conftest import ROOT

PACKAGES = (pintgn, theory, interop)
SCRIPT = """
import pintgn
from pintgn import Live, interop, theory
from pintgn.theory import temporal_wl

log = pintgn.read_events("trades.csv", "buyer", "seller", "when", features=["amount"])
reveal_type(log)  # is pintgn.events.log.EventLog
reveal_type(pintgn.simulate("shop", events=200, users=20))  # is pintgn.events.log.EventLog
run = pintgn.fit("pint", log, epochs=3, patience=None, learning_rate=1, memory_block=100, folder="run", seed=1)
reveal_type(run)  # is pintgn.learn.run.Run
reveal_type(pintgn.evaluate(run, "historical", rank="all"))  # is pintgn.learn.evaluate.Evaluation
reveal_type(pintgn.tune(log, "search", trials=2))  # is pintgn.learn.tune.Tuned
live = pintgn.open("run")
reveal_type(live)  # is pintgn.live.live.Live
reveal_type(live.recommend("alice", k=3)[0].probability)  # is float
reveal_type(live.explain("alice", "bob"))  # is pintgn.explain.answer.Explanation
reveal_type(pintgn.PINT(dim=8))  # is pintgn.models.pint.PINT
reveal_type(theory.distinguish(log, "a", "b"))  # is pintgn.theory.comparison.Distinction
reveal_type(temporal_wl(log))  # is pintgn.theory.colors.Coloring
reveal_type(interop.from_tgb({}))  # is pintgn.events.log.EventLog
reveal_type(pintgn.__version__)  # is str

def answers(service: pintgn.Service, live: Live) -> None:
    reveal_type(service.run)  # is pintgn.learn.run.Run
    reveal_type(live.run)  # is pintgn.learn.run.Run

try:
    pintgn.fit("pint", log)
except pintgn.errors.BadInput:
    pass

pintgn.ftt("pint", log)  # error: Module has no attribute "ftt"
theory.distinguis(log, "a", "b")  # error: Module has no attribute "distinguis"
interop.to_pygg(log)  # error: Module has no attribute "to_pygg"
pintgn.fit("pint", "trades.csv")  # error: Argument 2 to "fit" has incompatible type "str"; expected "EventLog | None"
pintgn.read_events("trades.csv", feature=["amount"])  # error: Unexpected keyword argument "feature"
pintgn.simulate("shop", users="20")  # error: Argument "users" to "simulate" has incompatible type "str"
pintgn.Service.open("run", limit=None)  # error: Unexpected keyword argument "limit"
live.recomend("alice")  # error: "Live" has no attribute "recomend"
"""


def said_by_mypy(folder, **scripts: str) -> dict[str, dict[int, str]]:
    """What `mypy --strict` says, by script and line, to a user who has installed pintgn (its own errors are silent)."""
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text)
    # where everything is known from an earlier run it takes a second, else half a minute
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "--no-pretty"]
    command += [f"--cache-dir={ROOT / '.mypy_cache' / 'users'}", *(f"{name}.py" for name in scripts)]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    said: dict[str, dict[int, str]] = {name: {} for name in scripts}
    for name, line, text in re.findall(
        r"^(\w+)\.py:(\d+): (?:error: |note: Revealed type is )(.*)$", done.stdout, re.M
    ):
        said[name][int(line)] = f"{said[name].get(int(line), '')}{text}"
    return said


@pytest.mark.slow
def test_mypy_sees_real_types_and_rejects_mistakes(tmp_path):
    names = [f"{package.__name__}.{name}" for package in PACKAGES for name in package.__all__]
    every = [f"import {', '.join(package.__name__ for package in PACKAGES)}", *(f"reveal_type({one})" for one in names)]
    said = said_by_mypy(tmp_path, script=SCRIPT, every="\n".join(every))
    wanted = 0
    for number, line in enumerate(SCRIPT.splitlines(), 1):
        found = re.search(r"  # (is|error:) (.*)$", line)
        told = said["script"].get(number, "nothing")
        if found is None:
            assert told == "nothing", line
        elif found[1] == "is":
            assert told == f'"{found[2]}"', line
        else:
            assert told.startswith(found[2]), line
        wanted += found is not None
    assert len(said["script"]) == wanted
    assert len(said["every"]) == len(names)
    assert not [one for one, told in zip(names, said["every"].values(), strict=True) if told in ('"Any"', '"object"')]


def test_type_checkers_are_told_that_there_are_types():
    assert (ROOT / "src" / "pintgn" / "py.typed").exists()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_name_of_a_stub_is_there(package):
    assert package.__all__
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert dir(package) == sorted(package.__all__)


def test_a_mistyped_name_is_named():
    with pytest.raises(AttributeError, match="pintgn.*ftt"):
        pintgn.ftt  # noqa: B018
