"""Documentation is tested: blocks run and print what pages show, commands exist, doctests hold, links lead on."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import shlex

import pytest

import pintgn
from tests.conftest import ROOT
from tools import pages
from tools.cli_page import contexts

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [m.name for m in pkgutil.walk_packages(pintgn.__path__, "pintgn.") if "__main__" not in m.name]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.M | re.S)


def name_of(page) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if pages.blocks(p.read_text())], ids=name_of)
def test_python_blocks_run_and_print_what_the_page_shows(page, tmp_path, monkeypatch):
    """A page's blocks run top to bottom in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for number, (block, printed) in enumerate(pages.run(page.read_text(), page.name), 1):
        if block.output is not None:
            wrong = pages.difference(block.output, printed)
            assert wrong is None, f"{page.name}, block {number}: {wrong}"


def shell_lines(text: str) -> list[str]:
    """Every command line in the blocks of a page that are not Python or another language."""
    found = []
    for _, language, block in FENCE.findall(text):
        if language in ("", "bash", "sh", "console", "shell"):
            joined = re.sub(r"\\\n\s*", " ", block)
            found += [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_pages_exist(page):
    """`pintgn …` lines name commands and options that there are, `make …` lines targets."""
    known = contexts()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for line in shell_lines(page.read_text()):
        words = shlex.split(re.split(r"\s#|\||;|&&|→|\s>", line)[0]) if line.startswith(("pintgn ", "make ")) else []
        if words[:1] == ["make"]:
            assert all(word in targets for word in words[1:] if "=" not in word), f"{page.name}: {line}"
        elif words:
            assert not unknown(words, known), f"{page.name}: {line!r} has {unknown(words, known)}"


def unknown(words: list[str], known: dict) -> list[str]:
    """What in a command line is no command or option; a page may write … for the rest."""
    path, wrong = "pintgn", []
    for word in words[1:]:
        context = known[path]
        if word.startswith("-") and not re.fullmatch(r"-\d.*", word):
            options = {name for p in context.command.get_params(context) for name in [*p.opts, *p.secondary_opts]}
            wrong += [word] if word.split("=")[0] not in options else []
        elif f"{path} {word}" in known:
            path = f"{path} {word}"
        elif hasattr(context.command, "list_commands") and not word.isdigit() and "…" not in word:
            wrong += [word]
    return wrong


def test_a_command_that_does_not_exist_is_found():
    known = contexts()
    assert unknown(["pintgn", "trian", "x.csv"], known) == ["trian", "x.csv"]
    assert unknown(["pintgn", "--threads", "1", "train", "x.csv", "--epoch", "3"], known) == ["--epoch"]
    assert unknown(["pintgn", "data", "info", "x.csv", "-t", "when", "--json"], known) == []


def test_output_that_is_not_so_is_found():
    assert pages.difference("pint  AP 97.21\n", "pint  AP 97.43\n") is None
    assert pages.difference("pint  AP 97.21\n…\n", "pint  AP 97.43\nmore\n") is None
    assert pages.difference("EventLog: 3 events, 2 nodes…\n", "EventLog: 3 events, 2 nodes, 1 to 5\n") is None
    assert pages.difference("pint  AP 97.21\n", "pint  AP 88.00\n")
    assert pages.difference("pint  AP 97.21\n", "tgn  AP 97.21\n")
    assert pages.difference("one\ntwo\n", "one\n")
    assert pages.difference("one\n", "one\ntwo\n")
    assert pages.difference("probability 0.13\n", "probability 0.33\n")


@pytest.mark.parametrize("module", MODULES)
def test_doctests_hold(module):
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_links_between_pages_lead_somewhere():
    made = {"changelog.md", "contributing.md", "security.md"}
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", prose):
            there = os.path.exists(page.parent / target) or target in made
            assert there, f"{page.name} links to {target}, which does not exist"
