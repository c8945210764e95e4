"""`make mutants`: changes are what they should be, tests are chosen by what they run, and verdicts are right."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import mutants as tool
from tools.mutant_map import Known, callers_of_kernels, chosen_tests, kernel_modules_upon, read_map
from tools.mutations import compiles, mutants

PACKAGE = ROOT / "src" / "pintgn"


def changes(body: str, tmp_path: Path) -> set[tuple[str, str]]:
    path = tmp_path / "some.py"
    path.write_text("def f(a, b, c):\n" + textwrap.indent(textwrap.dedent(body), "    "))
    found = mutants(path, tmp_path)
    assert all(compiles(one.applied(path.read_text())) for one in found)
    return {(one.before.strip(), one.after.strip()) for one in found}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", {("<", "<=")}),
        ("return a == b is not c", {("==", "!="), ("is not", "is")}),
        ("return a + (b)", {("+ (", "- (")}),
        ("return a and b or c", {("and", "or"), ("or", "and")}),
        ("return not a", {("not a", "(a)")}),
        ("return a[3]", {("3", "4"), ("3", "2")}),
        ("return a[0]", {("0", "1")}),
        ("return min(a, b)", {("min", "max"), ("a, b", "b, a")}),
        ("return a.searchsorted(b, 'left')", {("'left'", "'right'")}),
        ("if a:\n    return", {("a", "(not (a))"), ("return", "pass")}),
        ("for _ in a:\n    continue", {("continue", "pass")}),
        ("a[b] = c", {("a[b] = c", "pass")}),
        ("a += b", {("+=", "-="), ("a += b", "pass")}),
        ("a(\n    b,\n)", {("a(\n        b,\n    )", "pass")}),
        ("return True", {("True", "False")}),
        ('"""Words: 1 < 2."""\nx: "int < 3" = a', set()),
        ("raise ValueError(a + 1)", set()),
        ("return f'{a + 1}'", set()),
    ],
)
def test_changes_are_small_and_of_every_kind(body, expected, tmp_path):
    assert changes(body, tmp_path) == expected


def test_a_change_replaces_its_text_and_nothing_else(tmp_path):
    path = tmp_path / "some.py"
    path.write_text("X = 3\n\n\nclass C:\n    def m(self, ü):  # ü < 1\n        return [k for k in ü if k < 1]\n")
    found = {one.kind: one for one in mutants(path, tmp_path)}
    assert found["comparison"].applied(path.read_text()) == path.read_text().replace("if k < 1", "if k <= 1")
    assert {one.function for one in found.values()} == {"C.m"}, "constants of the module are left alone"
    assert found["comparison"].line == 6


def test_the_same_seed_draws_the_same_changes():
    one, again, other = (tool.draw(PACKAGE, "learn/", 20, seed) for seed in (1, 1, 2))
    assert one == again != other
    assert len({mutant.name for mutant in one}) == 20
    assert {mutant.path for mutant in one} <= {f"learn/{n}.py" for n in ("negatives", "evaluate", "protocol", "paper")}


def test_every_kernel_is_reached_from_python():
    reached = callers_of_kernels(PACKAGE)
    assert len(reached) > 100
    assert not [kernel for kernel, callers in reached.items() if not callers]
    asking = {
        f"neighbors/index.py:NeighborIndex.{name}" for name in ("last_of", "pair_history_of", "recent_contacts_of")
    }
    assert reached["neighbors/kernels_lookups.py:find"] == asking


def test_what_rests_on_a_changed_kernel_is_compiled_again_and_nothing_else():
    again = kernel_modules_upon(PACKAGE, "neighbors/kernels_lookups.py")
    assert {"neighbors/kernels_lookups.py", "neighbors/kernels_draws.py"} <= again
    assert not any(path.startswith(("positions/kernels", "models/kernels")) for path in again)


def test_tests_are_chosen_by_what_they_run_the_narrowest_first(tmp_path):
    path = tmp_path / "map.jsonl"
    path.write_text(
        '{"test": "wide", "seconds": 1, "passed": true, "calls": ["a.py:f", "a.py:g", "b.py:h"]}\n'
        '{"test": "fails", "seconds": 1, "passed": false, "calls": ["a.py:f"]}\n'
        '{"test": "other", "seconds": 1, "passed": true, "calls": ["b.py:h"]}\n'
        '{"test": "narrow", "seconds": 2, "passed": true, "calls": ["a.py:f"]}\n'
    )
    known = read_map(path)
    assert [one.test for one in chosen_tests("a.py", "f", known, {})] == ["narrow", "wide"]
    assert [one.test for one in chosen_tests("k.py", "kernel", known, {"k.py:kernel": {"b.py:h"}})] == ["other", "wide"]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A package of one function, with a test that sees less than it could."""
    package = tmp_path / "src" / "pintgn"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "compiled.py").write_text("def key():\n    return 'key'\n\n\ndef folder():\n    return None\n")
    (package / "some.py").write_text("def least(a, b):\n    while a > b:\n        a -= 1\n    return a\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(
        "from pintgn.some import least\n\n\n"
        "def test_least():\n    assert least(1, 2) == 1\n    assert least(3, 2) == 2\n"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['tests']\n")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "GRACE", 10.0)
    return tool.Bench(tmp_path / ".mutants"), package


@pytest.mark.slow
def test_a_change_is_killed_by_a_failure_and_by_a_test_that_never_ends(small):
    bench, package = small
    tests = [Known("tests/test_some.py::test_least", 0.01, frozenset())]
    change = {(one.kind, one.after.strip()): one for one in mutants(package / "some.py", package)}
    assert change.keys() == {
        ("condition", "(not (a > b))"),
        ("comparison", ">="),
        ("arithmetic", "+="),
        ("statement", "pass"),
        ("constant", "0"),
        ("constant", "2"),
    }
    assert bench.judge(change["comparison", ">="], tests)["status"] == "killed"
    never_ends = bench.judge(change["arithmetic", "+="], tests)
    assert never_ends["status"] == "killed"
    assert never_ends["seconds"] >= tool.GRACE
    assert (bench.package / "some.py").read_text() == (package / "some.py").read_text(), "put back"


def test_a_change_that_nothing_notices_survives_and_one_that_nothing_runs_is_untested(small):
    bench, package = small
    (bench.tree / "tests" / "test_some.py").write_text("def test_least():\n    pass\n")
    mutant = mutants(package / "some.py", package)[0]
    assert bench.judge(mutant, [Known("tests/test_some.py", 0.01, frozenset())])["status"] == "survived"
    assert bench.judge(mutant, [])["status"] == "untested"


def test_equivalent_changes_are_few_and_have_a_reason(monkeypatch, capsys):
    listed = tomllib.loads((ROOT / "tools" / "equivalent_mutants.toml").read_text()).get("mutant", [])
    assert len(listed) <= tool.MOST_EQUIVALENT * tool.COUNT
    for one in listed:
        assert one.keys() - {"line"} == {"path", "function", "before", "after", "reason"}
        assert (PACKAGE / one["path"]).exists()
        assert len(one["reason"]) > 20
    drawn = tool.draw(PACKAGE, "learn/", 20, 1)
    judged = [(one, {"status": "killed", "tests": 3}) for one in drawn]
    assert tool.summary(judged, 20) == 0
    judged[4] = (drawn[4], {"status": "survived", "tests": 3})
    judged[5] = (drawn[5], {"status": "untested", "tests": 0})
    assert tool.summary(judged, 20) == 1
    monkeypatch.setattr(tool, "equivalent", lambda one: "The same." if one == drawn[4] else None)
    assert tool.summary(judged[:5] + judged[6:], 19) == 1, "one of 19 is more than 5 %"
    said = capsys.readouterr().out
    assert "18 killed, 1 survived, 1 untested" in said
    assert f"equivalent {drawn[4]}" in said
