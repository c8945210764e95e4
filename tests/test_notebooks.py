"""Notebooks run from top to bottom, and show what they print; nothing heavy is kept in them."""

from __future__ import annotations

import json

import pytest

from tools import notebooks, pages

PATHS = notebooks.notebooks()


def words(output):
    """What of an output is the same on every machine: text, or which kinds there are."""
    return "".join(output["text"]) if output["output_type"] == "stream" else sorted(output["data"])


@pytest.mark.learning
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_prints(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for cell, outputs in notebooks.run(json.loads(path.read_text())):
        assert len(outputs) == len(cell["outputs"])
        for now, kept in zip(map(words, outputs), map(words, cell["outputs"]), strict=True):
            wrong = now != kept if isinstance(now, list) else pages.difference(kept, now, learned=True)
            assert not wrong, f"{path.name}: {wrong}; run python tools/notebooks.py"


def test_there_are_three_and_none_is_heavy():
    assert len(PATHS) >= 3
    for path in PATHS:
        notebook = json.loads(path.read_text())
        assert notebook["nbformat"] == 4
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
        assert all(cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code")
        assert path.stat().st_size < 50_000


def test_cells_are_shown_as_a_notebook_shows_them():
    code = {"cell_type": "code", "id": "a", "source": ["print(1)\n", "x = 2\n", "x"], "outputs": []}
    text = {"cell_type": "markdown", "source": ["# Title"]}
    ((_, (printed, result)),) = notebooks.run({"cells": [text, code]})
    assert (printed["text"], result["data"]) == (["1\n"], {"text/plain": ["2"]})
    code["outputs"] = [printed, result]
    page = notebooks.markdown({"cells": [text, code]}, "name")
    assert page.startswith("# Title\n\n```python\nprint(1)\nx = 2\nx\n```\n\n```text\n1\n```\n\n```text\n2\n```\n")
    assert "(name.ipynb)" in page
