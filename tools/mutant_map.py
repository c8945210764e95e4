"""Which tests run which functions: a plugin of pytest that notes it, and the tests for a function.

    python -m pytest -p tools.mutant_map --map FILE tests/…

Python says which functions are called; what happens inside compiled kernels it does not see. A kernel is run by the
tests that run a function of Python which names it, or names a kernel that calls it.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.mutations import functions

ROOT = Path(__file__).parents[1]


# -- noting ----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--map", help="a file to which a line is added for every test: what it ran, and how long")


def pytest_configure(config: Any) -> None:
    if config.getoption("--map"):
        config.pluginmanager.register(Noting(Path(config.getoption("--map")), Path(config.rootpath) / "src" / "pintgn"))


class Noting:
    def __init__(self, path: Path, package: Path):
        self.path, self.package, self.passed = path, str(package), True
        self.codes: set[Any] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.codes, self.passed = set(), True
        began = time.perf_counter()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            calls = sorted(
                f"{code.co_filename[len(self.package) + 1 :]}:{code.co_qualname}"
                for code in self.codes
                if code.co_filename.startswith(self.package)
            )
            seconds = round(time.perf_counter() - began, 3)
            told = {"test": item.nodeid, "seconds": seconds, "passed": self.passed, "calls": calls}
            with self.path.open("a") as file:
                file.write(json.dumps(told) + "\n")

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed &= report.passed


# -- kernels ---------------------------------------------------------------------------------------------------------


@dataclass
class Module:
    """What a file of the package defines and names, as far as the text says."""

    path: str
    tree: ast.Module
    imports: dict[str, str]  # a name here -> "module" or "module:name", as paths

    @classmethod
    def read(cls, path: Path, package: Path) -> Module:
        tree, imports = ast.parse(path.read_text()), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pintgn"):
                base = package.joinpath(*(node.module or "").split(".")[1:])
                for alias in node.names:
                    inside = (base / alias.name).with_suffix(".py")
                    found = f"{inside}" if inside.exists() else f"{base.with_suffix('.py')}:{alias.name}"
                    imports[alias.asname or alias.name] = found.removeprefix(f"{package}/")
        for node in ast.walk(tree):  # another name for it, such as `kernels: Any = kernels_lookups`
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Name):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and node.value.id in imports:
                        imports[target.id] = imports[node.value.id]
        return cls(path.relative_to(package).as_posix(), tree, imports)

    def named(self, node: ast.AST) -> set[str]:
        """Functions of the package that a tree names, as "path:name"."""
        found = set()
        for one in ast.walk(node):
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                found.add(f"{self.imports.get(one.value.id, '?')}:{one.attr}")
            elif isinstance(one, ast.Name):
                found.add(self.imports.get(one.id, f"{self.path}:{one.id}"))
        return found


def is_kernel(function: ast.FunctionDef) -> bool:
    names = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return any(isinstance(one, ast.Name) and one.id in ("kernel", "inner") for one in names)


def callers_of_kernels(package: Path) -> dict[str, set[str]]:
    """For each kernel the functions of Python from which it is reached; a whole module, where one stands in a table."""
    modules = [Module.read(path, package) for path in sorted(package.rglob("*.py"))]
    kernels, names = set[str](), dict[str, set[str]]()
    for module in modules:
        listed = dict(functions(module.tree))
        for name, function in listed.items():
            names[f"{module.path}:{name}"] = module.named(function)
            if is_kernel(function):
                kernels.add(f"{module.path}:{name}")
        rest = [one for one in module.tree.body if not isinstance(one, ast.FunctionDef | ast.ClassDef | ast.ImportFrom)]
        tables = set().union(*(module.named(one) for one in rest)) & kernels if rest else set()
        for name, function in listed.items():
            if tables and not is_kernel(function):
                names[f"{module.path}:{name}"] |= tables
    reached: dict[str, set[str]] = {kernel: set() for kernel in kernels}
    backward = defaultdict(set)
    for caller, called in names.items():
        for kernel in called & kernels:
            backward[kernel].add(caller)
    for kernel in kernels:
        left, seen = [kernel], {kernel}
        while left:
            for caller in backward[left.pop()] - seen:
                seen.add(caller)
                if caller in kernels:
                    left.append(caller)
                else:
                    reached[kernel].add(caller)
    return reached


def kernel_modules_upon(package: Path, path: str) -> set[str]:
    """A file and all that import it, directly or not: what has to be compiled again when it changes."""
    modules = [Module.read(one, package) for one in sorted(package.rglob("*.py"))]
    found, size = {path}, 0
    while len(found) > size:
        size = len(found)
        for module in modules:
            if {target.partition(":")[0] for target in module.imports.values()} & found:
                found.add(module.path)
    return found


# -- choosing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """A test that passes, and what it runs."""

    test: str
    seconds: float
    calls: frozenset[str]


def read_map(path: Path) -> list[Known]:
    """The newest word on every test, of those that passed."""
    newest = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        told = json.loads(line)
        newest[told["test"]] = told
    return [Known(t["test"], t["seconds"], frozenset(t["calls"])) for t in newest.values() if t["passed"]]


def chosen_tests(path: str, function: str, known: list[Known], callers: dict[str, set[str]]) -> list[Known]:
    """The tests that run a function, the narrowest first: those that run little else, and are quick."""
    wanted = callers.get(f"{path}:{function}", {f"{path}:{function}"})
    found = [one for one in known if one.calls & wanted]
    return sorted(found, key=lambda one: (len(one.calls), one.seconds, one.test))
