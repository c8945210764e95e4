"""Tables say what the rows say, beside what the paper says."""

from __future__ import annotations

import pytest

from paper.jobs import SETTINGS
from paper.tables import cell, cells_of, columns_of, row_line, text, time_text
from pintgn.learn.settings_files import published_rows
from tests.paper.helpers import by_job, link_row

PUBLISHED = published_rows(SETTINGS)


def time_row(model, data, processor, positions=0.0):
    row = link_row(model, data, epoch_processor=processor, epoch_wall=2 * processor, positions_processor=positions)
    return row | {"task": "time", "job": f"time {model}/{data} seed 0"}


def node_row(model, auc, **more):
    row = link_row(model, "wikipedia", test={"auc": auc}, **more)
    return row | {"task": "nodes", "job": f"nodes {model}/wikipedia seed 0"}


def test_a_place_has_mean_and_spread_over_seeds_and_the_difference_to_the_paper():
    newest = by_job(link_row(seed=0, ap=(0.96, 0.94)), link_row(seed=1, ap=(0.98, 0.92)))
    place = cell("pint", "uci", "all", newest, PUBLISHED)
    assert place.mean == pytest.approx(97.0)
    assert place.std == pytest.approx(2**0.5)  # of a sample: ((1 + 1) / (2 - 1)) ** 0.5
    assert place.difference == pytest.approx(97.0 - 96.01)
    assert (place.ours(), place.theirs(), place.beside()) == ("97.00 ± 1.41", "96.01 ± 0.1", "+0.99")


def test_one_seed_has_no_spread():
    place = cell("pint", "uci", "all", by_job(link_row()), PUBLISHED)
    assert (place.std, place.ours()) == (None, "96.00")


def test_a_row_stands_out_when_it_differs_by_more_than_the_papers_spread():
    near, far = by_job(link_row(ap=(0.9605, 0.94))), by_job(link_row(ap=(0.9612, 0.94)))
    assert not cell("pint", "uci", "all", near, PUBLISHED).stands_out  # 0.04 of 0.1
    assert cell("pint", "uci", "all", far, PUBLISHED).stands_out  # 0.11 of 0.1
    assert not cell("gat", "uci", "all", by_job(link_row("gat")), PUBLISHED).stands_out  # the paper has none


def test_capped_and_failed_places_are_marked():
    newest = by_job(link_row(ended="capped"), link_row("tgn", ended="failed", error="BadInput: no"))
    assert cell("pint", "uci", "all", newest, PUBLISHED).ours() == "96.00*"
    assert cell("tgn", "uci", "all", newest, PUBLISHED).ours() == "failed"
    assert cell("caw", "uci", "all", newest, PUBLISHED).ours() == "-"
    shown = text("table1", newest, PUBLISHED)
    assert "* capped" in shown
    assert "failed" in shown


def test_a_table_has_the_papers_rows_in_both_halves_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PINTGN_CACHE", str(tmp_path))
    newest = by_job(link_row(), link_row("pint", "wikipedia"))
    shown = text("table1", newest, PUBLISHED)
    assert [line.split("  ")[0] for line in shown.splitlines() if line.startswith(("Trans", "Induc"))] == [
        "Transductive",
        "Inductive",
    ]
    assert shown.count("PINT (w/o pos. feat.)") == 2
    assert "pintgn data fetch reddit" in shown
    assert "twitter is not public" in shown
    assert "without its edge features" in shown
    (tmp_path / "enron.parquet").touch()
    assert "Enron has not been run yet" in text("table1", newest, PUBLISHED, tmp_path)


def test_wikipedia_with_its_features_is_not_marked():
    newest = by_job(link_row("pint", "wikipedia", features=172))
    assert "edge features" not in text("table1", newest, PUBLISHED)


def test_columns_are_those_with_results_of_the_tables_own_rows():
    newest = by_job(link_row("caw", "uci"), link_row("tgn", "enron"))
    assert columns_of("table1", newest)[0] == ["uci", "enron"]
    assert columns_of("table2", newest)[0] == ["enron"]
    assert columns_of("dims", newest)[0] == []
    assert {place.model for place in cells_of("table1", newest, PUBLISHED)} == {"caw", "tgn"}


def test_time_has_wall_and_processor_seconds():
    shown = time_text(by_job(time_row("pint", "uci", 12.0, 0.5), time_row("jodie", "uci", 0.9)))
    assert "UCI wall" in shown
    line = next(line for line in shown.splitlines() if line.startswith("PINT  "))
    assert line.split()[1:] == ["24.0", "12.0"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            link_row(),
            "PINT on UCI, seed 0: AP 96.00 (paper 96.01, -0.01), new-node AP 94.00 (paper 93.97, +0.03), 7 ep",
        ),
        (link_row(ended="capped", epochs=4), "capped at epoch 4, best epoch 2, 61 s"),
        (link_row(ended="capped", epochs=0, first_epoch_share=0.25), "capped after 25 % of epoch 1"),
        (link_row("gat"), "GAT on UCI, seed 0: AP 96.00, new-node AP 94.00, 7 epochs"),
        (link_row(ended="failed", error="BadInput: no"), "PINT on UCI, seed 0: failed. BadInput: no"),
        (time_row("pint", "uci", 12.0), "24.0 s an epoch (12.0 s of processor time)"),
        (node_row("pint", 0.9), "PINT on Wikipedia, seed 0: AUC 90.00 (paper 87.59, +2.41)"),
    ],
)
def test_a_row_is_one_line_as_soon_as_it_is_known(row, said):
    line = row_line(row, PUBLISHED)
    assert said in line
    assert "\n" not in line
