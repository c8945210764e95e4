"""The model of growth finds the numbers that made its rows, and the picture in the documentation is what it draws."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import growth
from tests.conftest import ROOT

SIZES = [(10**5, 10**3), (10**6, 10**4), (10**6, 10**5), (10**7, 10**5), (10**7, 10**6)]


def rows(wrong: float = 1.0) -> list[dict]:
    made = [
        {
            "events": e,
            "nodes": n,
            "stream_bytes": 80 * e + 1500 * n,
            "observe_us": 1 + np.log10(e) + 2 * np.log10(n),
            "train_us": 5 + 4 * np.log10(e) + 3 * np.log10(n),
            "backend": "sketch",
        }
        for e, n in SIZES
    ]
    for column in growth.COLUMNS:
        made[-1][column] *= wrong
    return made


def test_the_model_finds_the_numbers_that_made_the_rows():
    found = growth.summary(rows())
    np.testing.assert_allclose(found["stream_bytes"]["model"], [80, 1500])
    np.testing.assert_allclose(found["train_us"]["model"], [5, 4, 3])
    assert found["stream_bytes"]["far"] == pytest.approx(80e9 + 1500e8)
    assert found["train_us"]["far"] == pytest.approx(5 + 4 * 9 + 3 * 8)


def test_the_largest_size_is_predicted_and_has_no_say_in_it():
    for column, found in growth.summary(rows(wrong=2.0)).items():
        assert found["measured"] == pytest.approx(2 * found["predicted"]), column


def test_the_picture_and_the_table_are_those_of_the_results():
    measured = growth.newest()
    assert growth.PICTURE.read_text(encoding="utf-8") == growth.picture(measured)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for row in measured:
        assert f"| {row['events']:,} | {row['nodes']:,} |" in page
        assert f"| {row['stream_bytes'] / 1e6:,.0f} MB | {row['observe_us']:.1f} | {row['train_us']:.0f} |" in page
    found = growth.summary(measured)
    for column, said in (("stream_bytes", "0.90"), ("train_us", "1.00"), ("observe_us", "1.03")):
        assert f"{found[column]['measured'] / found[column]['predicted']:.2f}" == said
        assert f"| {said} |" in page
    assert f"{found['stream_bytes']['far'] / 1e9:.0f} GB" in page
    assert f"× {found['train_us']['far']:.0f} µs" in page
