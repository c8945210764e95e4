"""tests/README.md names a test for each main promise; every one of them is there."""

from __future__ import annotations

import ast
import re

from tests.conftest import ROOT


def test_every_test_that_the_table_of_promises_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "tests" / "README.md").read_text())
    rows = [line for line in (ROOT / "tests" / "README.md").read_text().splitlines() if "::" in line]
    assert len(named) == len(rows) > 20, "a row names one test"
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        found = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
        assert name in found, f"{path} has no {name}"
        assert name.startswith("test_")
        marks = [ast.unparse(one) for one in found[name].decorator_list]
        assert "pytest.mark.slow" not in marks, f"{name} guards a main promise, so it runs in `make test`"


def test_every_rule_of_time_has_a_test():
    time = (ROOT / "docs" / "architecture.md").read_text().split("## Time")[1].split("\n## ")[0]
    rules = set(re.findall(r"^(\d+)\. ", time, re.MULTILINE))
    assert rules
    assert rules == set(re.findall(r"^\| (\d+) \|", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE))
