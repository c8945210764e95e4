"""What is imported is declared where it belongs, what is declared is imported, and every bound can be tested."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURS = {
    "pintgn",
    "paper",
    "tests",
    "tools",
    "benchmarks",
    "examples",
    "load",
    "serve",
}  # the last two: in benchmarks, too
HOMES = {  # where a package of an extra may be imported; the rest of pintgn works without it
    "boosted": ("models/boosted.py",),
    "tune": ("learn/tune.py",),
    "ray": ("workers/jobs.py",),
    "serve": (
        "serve/api.py",
        "serve/describe.py",
        "serve/http_server.py",
        "serve/prometheus.py",
        "serve/middleware.py",
        "serve/requests.py",
    ),
    "interop": ("interop/",),
    "duckdb": ("ingest/databases.py",),
    "postgres": ("ingest/databases.py", "feed/postgres_table.py", "serve/postgres"),
    "excel": ("ingest/excel.py",),
    "kafka": ("feed/kafka.py",),
    "nats": ("feed/nats.py",),
}
APART = {"tgb", "pandas", "polars", "IPython"}
"""Taken where users have them: tgb wants so much that no extra should bring it; frames and notebooks are theirs."""


INSTALLED = functools.cache(packages_distributions)


def normal(name: str) -> str:
    """A distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(group: list[str]) -> set[str]:
    return {normal(re.match(r"[\w.-]+", one)[0]) for one in group if not one.startswith("pintgn[")}


@functools.cache
def imported(path: Path) -> set[str]:
    """The packages of others that a file imports, wherever in the file, by name or by `need("name")`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("need", "pytest.importorskip"):
            found.add(node.args[0].value if isinstance(node.args[0], ast.Constant) else "")
    return {name.split(".")[0] for name in found if name} - OURS - sys.stdlib_module_names


def distributions(names: set[str]) -> set[str]:
    """What to install for packages; the names are the same where one is not installed."""
    known = INSTALLED()
    return {normal(known.get(name, [name])[0]) for name in names}


def test_what_the_package_imports_is_a_dependency_or_in_the_extra_of_its_place():
    always = declared(PROJECT["dependencies"])
    for path in sorted((ROOT / "src").rglob("*.py")):
        place = path.relative_to(ROOT / "src" / "pintgn").as_posix()
        allowed = always.union(*(declared(EXTRAS[extra]) for extra, homes in HOMES.items() if place.startswith(homes)))
        missing = distributions(imported(path) - APART) - allowed
        assert not missing, (
            f"{place} imports {missing}, which neither `dependencies` nor an extra of its place declares"
        )


def test_what_tests_and_tools_import_is_declared():
    allowed = declared(PROJECT["dependencies"]).union(*map(declared, EXTRAS.values()))
    for folder in ("tests", "tools", "paper", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            missing = distributions(imported(path)) - allowed
            assert not missing, f"{path.relative_to(ROOT)} imports {missing}, which pyproject.toml does not declare"


@pytest.mark.parametrize("group", ["dependencies", *EXTRAS])
def test_what_is_declared_is_imported_or_says_why_it_is_needed(group):
    folders = {"dev": ("tests", "tools", "paper", "benchmarks", "examples"), "docs": ("tools",)}.get(group, ("src",))
    used = distributions(
        {name for folder in folders for path in (ROOT / folder).rglob("*.py") for name in imported(path)}
    )
    text = (ROOT / "pyproject.toml").read_text()
    for one in EXTRAS.get(group, PROJECT["dependencies"]):
        if not one.startswith("pintgn["):
            why = re.search(rf'^\s*"{re.escape(one)}", # \w', text, re.M)
            assert why or declared([one]) <= used, (
                f"{one} is imported nowhere in {folders}; drop it, or say why it stays"
            )


def test_every_extra_is_part_of_dev():
    assert set(re.search(r"\[(.*)\]", EXTRAS["dev"][0])[1].split(",")) == set(EXTRAS) - {"dev"}


def test_no_version_is_pinned_and_every_lower_bound_can_be_installed_as_it_stands():
    bounds = versions.lower_bounds()
    assert {normal(name) for name in bounds} == declared([*versions.requirements()])
    assert bounds["torch"] == "2.13.0"
    assert "numpy==" in "\n".join(versions.constraints("lowest"))
    assert versions.constraints("newest") == [versions.pinned_torch()]


def test_a_requirement_without_a_lower_bound_is_refused(monkeypatch):
    monkeypatch.setattr(versions, "requirements", lambda: iter(["numpy>=2.0.2", "scipy"]))
    with pytest.raises(SystemExit, match="'scipy'; it takes NAME>=VERSION"):
        versions.lower_bounds()


def test_pins_are_within_the_bounds():
    pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)$", (ROOT / "constraints.txt").read_text(), re.M))
    pins = {normal(name): [int(part) for part in re.findall(r"\d+", version)] for name, version in pins.items()}
    for name, bound in versions.lower_bounds().items():
        assert pins[normal(name)] >= [int(part) for part in re.findall(r"\d+", bound)], name
