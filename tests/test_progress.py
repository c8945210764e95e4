"""`progress` means the same wherever it is an argument; a function that is new must be listed here."""

import inspect
import re
from pathlib import Path

import pytest

import pintgn
from pintgn import interop, theory

QUICK = {"epochs": 1, "batch": 100, "hidden": 0.0}
TABLE = {"src": ["a", "b", "a"], "dst": ["c", "c", "d"], "t": [1, 2, 3]}


def public():
    """Every public function and method that has an argument `progress`, by its name."""
    found = {}
    for module in (pintgn, theory, interop):
        listed = re.findall(r" as (\w+)$", Path(module.__file__).with_suffix(".pyi").read_text(), re.M)
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in listed}
    for name, thing in list(found.items()):
        if inspect.isclass(thing):
            members = dict(inspect.getmembers(thing, callable))
            found |= {f"{name}.{key}": one for key, one in members.items() if key[0] != "_" or key == "__init__"}
    functions = {name: thing for name, thing in found.items() if inspect.isroutine(thing)}
    return {name for name, one in functions.items() if "progress" in _parameters(one)}


def _parameters(function):
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in
        return {}


@pytest.fixture(scope="module")
def log():
    return pintgn.simulate("repeat", events=400, seed=0)


@pytest.fixture(scope="module")
def run(log, tmp_path_factory):
    made = pintgn.fit("heuristic", log, folder=tmp_path_factory.mktemp("run") / "run", **QUICK)
    return str(made.folder.path)


@pytest.fixture(scope="module")
def embedding(log):
    return pintgn.open(pintgn.fit(pintgn.TGN(dim=4, memory=4, layers=1), log, **QUICK))


def _served(make, **options):
    with make(**options):
        pass


CALLS = {
    "pintgn.read_events": lambda p, made: pintgn.read_events(TABLE, progress=p),
    "pintgn.fit": lambda p, made: pintgn.fit("edgebank", made.log, progress=p, **QUICK),
    "pintgn.evaluate": lambda p, made: pintgn.evaluate(made.run, baselines=(), progress=p),
    "pintgn.tune": lambda p, made: pintgn.tune(
        made.log, made.folder / "tuned", settings={"model": {"name": "tgat", "dim": 4, "layers": 1}, "train": QUICK},
        space={"train.learning_rate": [1e-3]}, trials=1, progress=p,
    ),
    "pintgn.write_report": lambda p, made: pintgn.write_report(made.run, made.folder / "report.html", progress=p),
    "pintgn.Live.observe": lambda p, made: pintgn.open(made.run).observe(made.later, progress=p),
    "pintgn.Live.recommend_many": lambda p, made: made.live.recommend_many("all", k=2, progress=p),
    "pintgn.Live.embed_many": lambda p, made: made.live.embed_many("all", progress=p).read_all(),
    "pintgn.Service.__init__": lambda p, made: _served(
        pintgn.Service, run=pintgn.Run.open(made.run), store=made.folder / "store", progress=p
    ),
    "pintgn.Service.open": lambda p, made: _served(
        pintgn.Service.open, run=made.run, store=made.folder / "store", progress=p
    ),
    "pintgn.theory.report": lambda p, made: theory.report(made.log, pairs=5, roots=5, progress=p),
}  # fmt: skip


class Made:
    """What the calls need."""

    def __init__(self, log, run, live, folder):
        self.log, self.run, self.live, self.folder = log, run, live, folder
        self.pair = log.id(log.src[-1]), log.id(log.dst[-1])
        self.later = {"src": [self.pair[0]], "dst": [self.pair[1]], "t": [float(log.t[-1]) + 1]}


def test_every_public_function_with_progress_is_tried_here():
    assert public() == set(CALLS)


@pytest.mark.parametrize("progress", [True, False, None, "function"])
@pytest.mark.parametrize("name", CALLS)
def test_progress_is_a_bar_nothing_or_a_function(name, progress, log, run, embedding, tmp_path):
    told = []
    given = (lambda *entry: told.append(entry)) if progress == "function" else progress
    CALLS[name](given, Made(log, run, embedding, tmp_path))
    assert bool(told) == (progress == "function")


@pytest.mark.parametrize("name", CALLS)
def test_another_progress_is_refused_in_one_line(name, log, run, embedding, tmp_path):
    with pytest.raises(pintgn.errors.BadInput, match=r"progress='loud'.*True.*False.*function"):
        CALLS[name]("loud", Made(log, run, embedding, tmp_path))
