"""Tables fit where they are shown: whole in files and notebooks, narrower on narrow terminals."""

from __future__ import annotations

import pytest

from pintgn.formatting import text_table
from pintgn.learn.figures_text import epoch_line, figures_table


def figures(ap=0.9721, events=8_000):
    return {"events": events, "ap": ap, "chunked_ap": ap, "auc": ap}


SPREAD = {"events": (8_000, 0), "ap": (0.9721, 0.0012), "chunked_ap": (0.97, 0.001), "auc": (0.98, 0.0)}
ROWS = {
    "pint": {"all": figures(), "seen": figures(0.98, 7_000), "new": figures(0.95, 1_000)},
    "edgebank": {"all": figures(0.7), "seen": figures(0.7, 7_000), "new": figures(0.6, 1_000)},
}


@pytest.mark.parametrize("width", [50, 60, 72])
def test_a_table_fits_a_narrow_terminal_and_keeps_every_figure(width):
    made = figures_table(ROWS, width)
    assert max(map(len, made.splitlines())) <= width
    for figure in ("97.21", "98.00", "95.00", "70.00", "60.00"):
        assert figure in made


def test_spreads_fit_sixty_columns():
    rows = {"pint": {"all": SPREAD, "new": SPREAD}}
    made = figures_table(rows, 60)
    assert max(map(len, made.splitlines())) <= 60
    assert "97.21 ± 0.12" in made


def test_without_a_terminal_a_table_is_whole():
    assert "AP (200-row chunks)" in figures_table(ROWS)


def test_a_group_without_events_is_a_sentence():
    none = {"events": 0, "ap": None, "chunked_ap": None, "auc": None}
    made = figures_table({name: groups | {"new": none} for name, groups in ROWS.items()})
    assert "new nodes" not in made
    assert made.endswith("No event touches a new node.")
    only_one = figures_table({"pint": ROWS["pint"], "other": ROWS["edgebank"] | {"new": none}})
    assert "new nodes" in only_one
    assert " -" in only_one


def test_no_line_of_a_table_ends_in_blanks():
    for line in [*figures_table(ROWS).splitlines(), *text_table([], [["a", "1"], ["b", ""]]).splitlines()]:
        assert line == line.rstrip()


def test_an_epoch_is_one_line_also_on_sixty_columns():
    val = {"all": {"ap": 0.96712}, "new": {"ap": None}}
    entry = {"epoch": 3, "loss": 0.4123, "val": val, "events_per_second": 12345.6, "seconds": 75.0}
    assert epoch_line(entry, 50) == ("epoch 3/50  loss 0.412  val AP 96.71  new-node AP -  12,346 events/s  1 min 15 s")
    assert epoch_line(entry, 50, 60) == "epoch 3/50  loss 0.412  val AP 96.71  new -  1 min 15 s"
