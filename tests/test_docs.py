"""Documentation is tested: blocks run and print what pages show, commands exist, doctests hold, links lead on."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import shlex

import pytest

import paper
import pintgn
from paper.command import app as reproduce
from tests.conftest import ROOT
from tests.promises import PROMISES
from tools import pages
from tools.cli_page import contexts

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    module.name
    for package in (pintgn, paper)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if "__main__" not in module.name
]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.M | re.S)


def name_of(page) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.learning
@pytest.mark.parametrize("page", [p for p in PAGES if pages.blocks(p.read_text())], ids=name_of)
def test_python_blocks_run_and_print_what_the_page_shows(page, tmp_path, monkeypatch):
    """A page's blocks run top to bottom in one namespace, in an empty folder. What was learned keeps its promises."""
    monkeypatch.chdir(tmp_path)
    text, namespace, outputs = page.read_text(), {}, []
    for number, (block, printed) in enumerate(pages.run(text, page.name, namespace), 1):
        outputs.append(printed)
        if block.output is not None:
            wrong = pages.difference(block.output, printed, block.learned)
            assert wrong is None, f"{page.name}, block {number}: {wrong}"
    if name_of(page) in PROMISES:
        PROMISES[name_of(page)](namespace, outputs)


def test_learned_output_has_promises_and_is_marked_as_it_is_read():
    """A fence that is spelled otherwise would be shown, and never compared."""
    for page in PAGES:
        text = page.read_text()
        learned = any(block.learned for block in pages.blocks(text))
        assert learned == (name_of(page) in PROMISES), f"{page.name}: say in tests/promises.py what must hold"
        shown = [block for block in pages.blocks(text) if block.output is not None]
        fences = re.findall(r"^```\n\s*^```.*(?:text|learned).*$", text, re.M)
        assert len(fences) == len(shown), f"{page.name}: a fence of output is ```text or ```text {{ .learned }}"


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
    """`pintgn …` and `python -m paper …` lines name commands and options that there are, `make …` lines targets."""
    known = contexts() | contexts(reproduce, "paper")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for line in shell_lines(page.read_text()):
        line = line.replace("python -m paper", "paper")
        checked = line.startswith(("pintgn ", "paper ", "make "))
        words = shlex.split(re.split(r"\s#|\||;|&&|→|\s>", line)[0]) if checked else []
        if words[:1] == ["make"]:
            assert all(word in targets for word in words[1:] if "=" not in word), f"{page.name}: {line}"
        elif words:
            assert not unknown(words, known), f"{page.name}: {line!r} has {unknown(words, known)}"


def unknown(words: list[str], known: dict) -> list[str]:
    """What in a command line is no command or option; a page may write … for the rest."""
    path, wrong = words[0], []
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
    assert pages.difference("30 of 1,000  \n", "30 of 1,000\n") is None
    assert pages.difference("30 of 1,000\n…\n", "30 of 1,000\nmore\n") is None
    assert pages.difference("EventLog: 3 events, 2 nodes…\n", "EventLog: 3 events, 2 nodes, 1 to 5\n") is None
    assert pages.difference("EventLog: 3 events, 2 nodes…\n", "EventLog: 4 events, 2 nodes, 1 to 5\n")
    assert pages.difference("30 of 1,000\n", "31 of 1,000\n")
    assert pages.difference("0.5000\n", "0.5001\n")
    assert pages.difference("one\ntwo\n", "one\n")
    assert pages.difference("one\n", "one\ntwo\n")


def test_of_what_was_learned_the_words_are_compared_and_no_digit():
    def wrong(shown, printed):
        return pages.difference(shown, printed, learned=True)

    assert wrong("pint  AP 97.21\n──  ─────\n", "pint  AP   8.4\n──  ────\n") is None
    assert wrong("Recommendation(dst='item176', logit=3.02)\n", "Recommendation(dst='item26', logit=-4e-05)\n") is None
    assert wrong("AP 0.86; without…\n", "AP 0.91; without training 0.67\n") is None
    assert wrong("AP 0.86; without…\n", "AP 0.91; with training 0.67\n")
    assert wrong("pint  AP 97.21\n", "tgn  AP 97.21\n")
    assert wrong("pint  AP 97.21\n", "pint  AP nan\n")
    assert wrong("one\n", "one\ntwo\n")
    page = "```python\nprint(1)\n```\n\n```text { .learned }\n2\n```\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert [(block.output, block.learned) for block in pages.blocks(page)] == [("2\n", True), ("1\n", False)]


def test_outputs_are_written_anew_and_keep_their_fence(tmp_path):
    page = "```python\nprint(1)\n```\n\n```text{}\n{}\n```\n"
    for mark in ("", " { .learned }"):
        (tmp_path / "page.md").write_text(page.replace("{}\n{}", f"{mark}\n2"))
        assert pages.rewritten(tmp_path / "page.md") == page.replace("{}\n{}", f"{mark}\n1")


@pytest.mark.parametrize("module", MODULES)
def test_doctests_hold(module):
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_every_public_object_has_an_example_that_runs():
    elsewhere = {"Model", "Boosted", "Service", "write_report", "tune"}  # pages of their own show them
    public = {name: getattr(pintgn, name) for name in pintgn.__all__}
    made = {name: found for name, found in public.items() if callable(found) and name not in elsewhere}
    assert not [name for name, found in made.items() if ">>> " not in (found.__doc__ or "")]


def test_links_between_pages_lead_somewhere():
    made = {"changelog.md", "contributing.md", "security.md"}
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", prose):
            there = os.path.exists(page.parent / target) or target in made
            assert there, f"{page.name} links to {target}, which does not exist"
