"""The gallery's page is what the code says, its drawings are drawings, its facts are facts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pintgn.errors import UnknownName
from pintgn.theory.items import gallery, item
from tests.conftest import ROOT
from tests.theory.helpers import graph_properties
from tools.gallery_page import page


def test_the_page_and_its_drawings_are_up_to_date():
    """If this fails, run `python tools/gallery_page.py` and look at what changed."""
    text, drawings = page()
    assert (ROOT / "docs" / "gallery.md").read_text() == text
    for file, svg in drawings.items():
        assert (ROOT / "docs" / "img" / file).read_text() == svg


@pytest.mark.parametrize("name", gallery())
def test_every_item_is_drawn_and_explained(name):
    shown = item(name)
    root = ElementTree.fromstring(shown.svg())
    nodes = sum(len(graph.layout) for graph in shown.graphs)
    assert len(root.findall(".//{*}circle")) == nodes
    words = [text.text for text in root.findall(".//{*}text")]
    for graph in shown.graphs:
        assert {*graph.layout, *(str(t) for *_, t in graph.events)} <= set(words)
    assert len(shown.text.split()) > 40
    if shown.trees:
        assert ElementTree.fromstring(shown.trees_svg()).find(".//{*}circle") is not None


@pytest.mark.parametrize("name", gallery())
def test_no_two_nodes_are_drawn_on_top_of_each_other(name):
    for graph in item(name).graphs:
        places = list(graph.layout.values())
        for i, (x, y) in enumerate(places):
            assert all((x - a) ** 2 + (y - b) ** 2 > 0.5**2 for a, b in places[:i])


def test_stated_properties_hold():
    for shown in gallery().values():
        for graph, facts in zip(shown.graphs, shown.facts, strict=False):
            assert facts == graph_properties(graph.log)


def test_a_mistyped_name_is_suggested():
    with pytest.raises(UnknownName, match="no item 'atention'. Did you mean 'attention'"):
        item("atention")
