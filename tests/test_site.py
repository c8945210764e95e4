"""The frame of the documentation: what is made from the product is fresh, nothing is left out, the site builds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest
import yaml

import pintgn
from pintgn import interop, theory
from tests.conftest import ROOT
from tools import cli_page, drawings, notebooks, picture

DOCS = ROOT / "docs"
AT_ROOT = {"changelog.md", "contributing.md", "security.md"}


def test_the_page_of_commands_is_what_help_says():
    pinned = re.search(r"^typer==(.+)$", (ROOT / "constraints.txt").read_text(), re.M)
    if version("typer") != pinned[1]:
        pytest.skip("help is laid out by typer, and this is another version than the page was written with")
    assert (DOCS / "cli.md").read_text() == cli_page.text(), "run python tools/cli_page.py"


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_drawings_show_what_the_engine_answers(name):
    assert (DOCS / "img" / name).read_text() == drawings.DRAWINGS[name](), "run python tools/drawings.py"


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "api.md").read_text()
    rooms = {"errors", "events", "theory", "interop"}  # pages and sections of their own
    public = [f"pintgn.{name}" for name in pintgn.__all__ if name not in rooms]
    public += [f"{room.__name__}.{name}" for room in (theory, interop) for name in room.__all__]
    missing = [name for name in public if not re.search(rf"(::: |`){re.escape(name)}(`|$)", page, re.M)]
    assert not missing, f"docs/api.md lacks {', '.join(missing)}"


def test_every_page_is_in_the_navigation():
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(nav)))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    there |= {f"notebooks/{path.stem}.md" for path in notebooks.notebooks()}
    assert listed == there | AT_ROOT
    assert len(listed) <= 40, "merge what belongs together"


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == pintgn.__version__


def test_the_picture_has_a_dot_for_every_published_figure():
    published = tomllib.loads((ROOT / "results" / "published.toml").read_text())
    drawn = (DOCS / "img" / "published.svg").read_text()
    for one in published.values():
        for method, (every, new) in one["methods"].items():
            assert f"{method}, {one['name']}, all events: {every:.2f}" in drawn, "run python tools/picture.py"
            assert f"{method}, {one['name']}, new nodes: {new:.2f}" in drawn, "run python tools/picture.py"
    assert picture.TABLE.search((ROOT / "README.md").read_text())


def test_the_picture_and_the_table_can_be_made_from_the_rows_there_are():
    sets = picture.collected()
    assert picture.draw(sets).count("<circle") == 2 + 2 * sum(len(one["methods"]) for one in sets.values())
    for data, one in sets.items():
        assert one["methods"].keys() >= picture.OURS.keys() or not picture.best_rows(data)
        assert f"| {one['name']}, new nodes | " in picture.table(sets)
    readme = picture.TABLE.search((ROOT / "README.md").read_text())
    assert readme is not None
    assert picture.table(sets) in readme[0], "run python tools/picture.py"


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?(\w+:)?//""", text)
        loaded += re.findall(r"""<link\b[^>]*\bhref=["']?(?:\w+:)?//""", text)
        assert not loaded, f"{page.name} loads something from elsewhere"
        assert "@@" not in text, f"{page.name} has an open place"
    live = (tmp_path / "api" / "Live.html").read_text()
    assert all(f'id="pintgn.Live.{name}"' in live for name in ("observe", "recommend", "explain", "predict_proba"))
    assert (tmp_path / "files" / "paper" / "paper.toml").exists()  # files that pages link to come along
    for name in ("fit", "Run", "EventLog", "theory.distinguish", "interop.to_pyg", "errors"):  # a page for each object
        page = (tmp_path / "api" / f"{name}.html").read_text()
        assert f'id="pintgn.{name}"' in page or name == "errors", name
        assert "```" not in page
        assert f'href="api/{name}.html"' in (tmp_path / "api.html").read_text()
