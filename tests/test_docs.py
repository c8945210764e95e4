"""Documentation is tested: every python block of README.md and docs/ runs, every doctest holds."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re

import pytest

import pintgn
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [m.name for m in pkgutil.walk_packages(pintgn.__path__, "pintgn.") if "__main__" not in m.name]


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("page", [p for p in PAGES if p.exists() and blocks(p.read_text())], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """A page's blocks run top to bottom in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": page.stem}
    for number, block in enumerate(blocks(page.read_text()), 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


@pytest.mark.parametrize("module", MODULES)
def test_doctests_hold(module):
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", prose):
            assert os.path.exists(page.parent / target), f"{page.name} links to {target}, which does not exist"
