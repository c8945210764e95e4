from __future__ import annotations

import pytest

from pintgn.report.figures import Difference
from pintgn.report.headline import compared


def difference(value, low, high) -> Difference:
    return Difference("a", "b", "random", "all", "ap", value, low, high, 1_000)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (difference(0.02, 0.01, 0.03), "+2.0 points (95 % interval +1.0 to +3.0)"),
        (difference(-0.02, -0.03, -0.01), "−2.0 points (95 % interval −3.0 to −1.0): the model is worse"),
        (difference(0.02, -0.01, 0.05), "+2.0 points (95 % interval −1.0 to +5.0): the model is no better"),
        (difference(0.0, 0.0, 0.0), "0.0 points (95 % interval 0.0 to 0.0): the model is no better"),
        (difference(0.02, None, None), "+2.0 points, on too few events for an interval"),
    ],
)
def test_a_difference_is_only_called_one_where_its_interval_leaves_out_zero(found, words):
    assert compared(found) == words
