"""Charts and sheets of charts: axes that can be read, missing values, words of users, files of their own."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from pintgn.drawing.plot import LETTER, WIDTH, Axis, Plot, dot_plot, nice_ticks, sheet
from pintgn.events.schema import TimeUnit
from pintgn.report.labels import time_ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 17), (0.9731, 0.9734), (0, 1e9), (1e-6, 2e-6), (5, 5)])
def test_ticks_are_round_inside_and_not_too_many(low, high):
    ticks = nice_ticks(low, high, 4)
    assert 1 <= len(ticks) <= 5
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)


@pytest.mark.parametrize("span", [30, 3_000, 90_000, 10**6, 10**7, 10**8, 10**9])
@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_dates_on_an_axis_are_inside_apart_and_right(span, unit):
    per = {"s": 1, "ms": 10**3, "ns": 10**9}[unit]
    low = 1_700_000_123 * per
    ticks = time_ticks(low, low + span * per, TimeUnit(unit))
    assert 1 <= len(ticks) <= 5
    for value, word in ticks:
        assert low <= value <= low + span * per
        shown = str(np.datetime64(int(value), unit).astype("datetime64[s]"))
        assert word in shown.replace("T", " ") or word.replace(" ", "T") in shown


def test_words_on_an_axis_never_run_into_each_other():
    ticks = [(float(k), f"a long word {k}") for k in range(12)]
    svg = Plot(Axis(0, 11, ticks=ticks), Axis(0, 1, ticks=[])).svg()
    places = sorted((float(x), len(word)) for x, word in re.findall(r'class="tick" x="([\d.]+)"[^>]*>([^<]+)<', svg))
    assert len(places) > 1
    for (left, size), (right, other) in pairwise(places):
        assert right - left >= LETTER * (size + other) / 2


def test_a_line_breaks_where_a_value_is_missing():
    plot = Plot(Axis(0, 3), Axis(0, 1))
    plot.line([0, 1, 2, 3], [0.5, np.nan, 0.5, 0.6], "s0")
    path = re.search(r'class="s0 line" d="([^"]+)"', plot.svg())[1]
    assert path.count("M") == 2
    assert "nan" not in path


def test_words_of_users_are_escaped_in_drawings():
    svg = dot_plot(["<b>"], [("s0", [(0.5, 0.4, 0.6, "<i>")])], x_label="&", words=str, name='"').svg()
    assert "<b>" not in svg
    assert "<i>" not in svg
    assert 'aria-label="&quot;"' in svg


def test_a_sheet_is_a_file_of_its_own_with_every_chart_and_legend_inside_it():
    plots = {f"set {k}": Plot(Axis(0, 1), Axis(0, 1)) for k in range(3)}
    plots["set 0"].dot(0.5, 0.5, "s0", "a & b")
    legend = [("s0", mark, f"some <words> {mark}") for mark in ("line", "line dash", "dot", "ring", "bar")]
    text = sheet("three & a title", plots, legend)
    root = ElementTree.fromstring(text)
    words = [one.text for one in root.findall(".//{*}text")]
    assert {*plots, *(key[2] for key in legend)} <= set(words)
    assert root.find("{*}title").text == "three & a title"
    width, height = float(root.get("width")), float(root.get("height"))
    assert width >= 2 * WIDTH
    for group in root.findall("{*}g"):
        x, y = map(float, re.findall(r"[\d.]+", group.get("transform")))
        assert x < width
        assert y < height
    assert "--soft" in text, "colors are in the file: there is no page to take them from"
    assert sheet("three & a title", plots, legend) == text
