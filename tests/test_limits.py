"""Every constant in the code that is a size is tested just below, at and above it, through the public verbs.

`SIZES` is the list. A test looks at the code for constants that are not in it: a new one comes with its test, or with
the reason why it is none. Where the real size would be slow, a test makes the constant small.
"""

from __future__ import annotations

import ast
import importlib

import numpy as np

from tests.conftest import ROOT

READOUT = "tests/models/test_readout.py"
INGEST, LEARN, POSITIONS, THEORY = (
    f"tests/{name}/test_sizes.py" for name in ("ingest", "learn", "positions", "theory")
)
SIZES = {
    "ingest.codec.LONGEST_ID": "tests/serve/test_requests.py",
    "ingest.download.CHUNK": "tests/ingest/test_download.py::test_pieces_of_any_size_make_the_file",
    "ingest.feature_columns.MOST_CATEGORIES": f"{INGEST}::test_so_many_categories_and_no_more",
    "ingest.feature_columns.MOST_ONE_HOT": f"{INGEST}::test_few_categories_are_columns_and_many_are_hashed",
    "events.columns.NARROWED": "tests/events/test_precision.py::test_numbers_are_judged_and_narrowed_alike_in_pieces",
    "events.checks.PIECE": "tests/events/test_precision.py::test_numbers_are_judged_and_narrowed_alike_in_pieces",
    "events.checks.FAR": "tests/events/test_precision.py::test_numbers_far_from_zero_are_kept_in_full",
    "events.categories.PIECE": f"{INGEST}::test_a_file_is_read_alike_in_pieces_of_any_size",
    "ingest.read.MOST_FEATURES": "tests/ingest/test_wide.py",
    "events.kernels.LONGEST_TEXT": f"{INGEST}::test_the_longest_id",
    "events.kernels.RUN": f"{INGEST}::test_nodes_are_numbered_by_first_appearance",
    "events.moment.LONGEST": "tests/events/test_moment.py",
    "events.numbering.MOST_NODES": f"{INGEST}::test_more_nodes_than_can_be_numbered_are_refused",
    "events.schema.LATEST": "tests/stream/test_core.py",
    "events.schema.LATEST_ASKED": "tests/stream/test_core.py",
    "events.seal.CHUNK": "tests/events/test_seal.py",
    "datasets.simulate.PIECE": f"{INGEST}::test_the_truth_of_a_world_is_the_same_in_pieces_of_any_size",
    "ingest.table_source.BATCH": f"{INGEST}::test_a_file_is_read_alike_in_pieces_of_any_size",
    "events.store.COLUMNS": f"{INGEST}::test_a_log_of_any_width_is_kept",
    "events.table.BYTES": f"{INGEST}::test_a_log_is_written_alike_in_pieces_of_any_size",
    "events.table.ROWS": f"{INGEST}::test_a_log_is_written_alike_in_pieces_of_any_size",
    "ingest.textfile.BLOCK": f"{INGEST}::test_a_file_is_read_alike_in_pieces_of_any_size",
    "ingest.textfile.LONGEST_LINE": f"{INGEST}::test_a_line_of_any_length_is_read_up_to_the_longest",
    "ingest.textfile.SAMPLE": f"{INGEST}::test_a_text_file_is_understood_by_a_beginning_of_any_size",
    "explain.counterfactuals.MEMORY": f"{LEARN}::test_an_explanation_is_the_same_in_pieces_of_any_size",
    "feed.file_tail.CHUNK": "tests/feed/test_file_tail.py::test_chunks_of_any_size_make_the_same_rows",
    "feed.file_tail.LONGEST_RECORD": "tests/feed/test_file_tail.py::test_a_record_has_so_many_bytes_and_no_more",
    "feed.file_tail.TAIL": "tests/feed/test_file_tail.py::test_a_file_is_known_again_by_so_many_bytes",
    "feed.stream_source.LONGEST_NAME": "tests/feed/test_file_tail.py::test_a_name_is_as_long_as_a_key_allows",
    "interop.tgb.BATCH": "tests/interop/test_tgb.py::test_no_figure_of_tgb_depends_on_the_batch",
    "learn.defaults.MANY": f"{LEARN}::test_rules_for_settings_turn_where_they_say",
    "learn.defaults.BUSY": f"{LEARN}::test_rules_for_settings_turn_where_they_say",
    "learn.defaults.STEPS": f"{LEARN}::test_rules_for_settings_turn_where_they_say",
    "learn.defaults.MOST_STEPS": f"{LEARN}::test_rules_for_settings_turn_where_they_say",
    "learn.evaluate.MOST": "tests/learn/test_evaluate.py::test_of_many_events_stretches_are_scored_and_it_is_said",
    "learn.tasks.link.RANKED": "tests/learn/test_loss.py",
    "learn.tasks.link.AMONG": "tests/learn/test_loss.py",
    "learn.tasks.link.NEXT_AMONG": "tests/learn/test_next.py::test_few_events_or_few_others_are_as_good_as_there_are",
    "learn.tasks.link.NEXT_EVENTS": "tests/learn/test_next.py::test_few_events_or_few_others_are_as_good_as_there_are",
    "learn.relation_ranks.ANSWERS": "tests/learn/test_relations.py::test_no_rank_depends_on_batches",
    "learn.relation_ranks.PAIRS": "tests/learn/test_relations.py::test_no_rank_depends_on_batches",
    "learn.tasks.relation.MOST_RELATIONS": "tests/learn/test_relations.py::test_an_id_is_no_relation",
    "live.observing.BLOCK": "tests/test_sizes.py",
    "live.pending.MOST": "tests/live/test_pending.py::test_so_many_answers_and_so_many_numbers_wait",
    "live.pending.NUMBERS": "tests/live/test_pending.py::test_so_many_answers_and_so_many_numbers_wait",
    "live.candidates.CANDIDATES": "tests/live/test_candidates.py::test_a_source_has_so_many_candidates_and_no_more",
    "live.candidates.EXACT": "tests/live/test_candidates.py::test_every_destination_is_ranked_up_to_so_many",
    "live.candidates.NEWEST": "tests/live/test_candidates.py::test_candidates_are_those_that_walks_reach",
    "live.embeddings.CHUNK": "tests/live/test_candidates.py::test_embeddings_are_the_same_in_chunks_of_any_size",
    "live.answerer.NODES": f"{LEARN}::test_answers_are_the_same_in_pieces_of_any_size",
    "live.answerer.SCORED": f"{LEARN}::test_answers_are_the_same_in_pieces_of_any_size",
    "learn.measure.BATCH": "tests/learn/test_evaluate.py::test_no_figure_depends_on_the_batch_of_the_computation",
    "learn.measure.PIECE": "tests/learn/test_evaluate.py::test_no_figure_depends_on_the_piece_that_is_observed",
    "learn.measure.PAIRS": "tests/learn/test_evaluate.py::test_no_figure_depends_on_the_batch_of_the_computation",
    "learn.metrics.CHUNK": f"{LEARN}::test_chunked_ap_is_the_mean_over_chunks",
    "learn.negatives.BLOCK": f"{LEARN}::test_candidates_are_the_same_however_a_part_is_cut",
    "report.study.MOST": "tests/report/test_study.py",
    "learn.train.KEPT": f"{LEARN}::test_no_figure_depends_on_whether_a_stream_is_kept_between_epochs",
    "learn.tasks.column.MOST_CLASSES": "tests/learn/test_tasks.py::test_too_many_classes_are_refused",
    "learn.train.AT_ONCE": "tests/models/test_boosted.py",
    "models.layers.WORTH_A_THREAD": f"{LEARN}::test_threads_change_no_score",
    "models.pair_features.VISITORS": f"{READOUT}::test_so_many_visitors_are_compared_and_no_more",
    "models.pair_features.NEWEST": f"{READOUT}::test_so_many_contacts_are_compared_and_no_more",
    "models.aggregates.MOST_COLUMNS": "tests/models/test_aggregates.py::test_sums_are_kept_of_so_many_columns",
    "models.known_columns.SAMPLED": f"{READOUT}::test_what_is_usual_comes_from_training_events_evenly_taken",
    "models.known_columns.SAMPLED_FROM": f"{READOUT}::test_what_is_usual_comes_from_the_newest_events_of_a_long_log",
    "neighbors.adjacency.PIECE": "tests/neighbors/test_files.py::test_what_is_saved_in_pieces_opens_as_a_whole",
    "neighbors.adjacency.HUB": "tests/neighbors/test_hubs.py::test_at_the_size_from_which_on_there_is_one",
    "neighbors.adjacency.NARROW": "tests/neighbors/test_sizes.py::test_the_largest_number_in_four_bytes",
    "neighbors.queries.LARGEST_ID": "tests/neighbors/test_sizes.py::test_the_largest_node",
    "neighbors.kernels_lookups.BLOCK": "tests/neighbors/test_sizes.py::test_meetings_are_found_in_lists_of_any_length",
    "neighbors.kernels_storage.FEW": "tests/neighbors/test_ties.py",
    "positions.kernels_arena.BINS": f"{POSITIONS}::test_positions_of_stars_of_any_size",
    "positions.kernels_arena.FEW": f"{POSITIONS}::test_positions_of_stars_of_any_size",
    "positions.kernels_arena.NARROW": "tests/positions/test_tables.py::test_counts_widen_exactly_when_they_must",
    "positions.kernels_arena.UNIT": f"{POSITIONS}::test_positions_of_stars_of_any_size",
    "positions.exact.LONGEST": f"{POSITIONS}::test_a_long_arena_of_positions_changes_no_count",
    "positions.exact.START": f"{POSITIONS}::test_positions_of_stars_of_any_size",
    "positions.kernels_sketch.WORD": f"{POSITIONS}::test_sketches_of_any_width",
    "positions.relative.BUDGET": f"{POSITIONS}::test_the_budget_is_kept_to_the_byte",
    "positions.capacity.SMALL": f"{POSITIONS}::test_memory_is_asked_about_where_it_matters",
    "positions.kernels_arena.WIDTH": f"{POSITIONS}::test_positions_of_stars_of_any_size",
    "positions.sketch.CHUNK": f"{POSITIONS}::test_exact_positions_become_a_sketch_in_pieces_of_any_size",
    "stream.core.OBSERVED_AT_ONCE": "tests/stream/test_core.py::test_a_log_is_observed_alike_in_pieces_of_any_size",
    "stream.core.WORTH_A_THREAD": "tests/stream/test_core.py::test_a_log_is_observed_alike_by_one_thread_and_by_two",
    "stream.core.PAIRS_AT_ONCE": "tests/stream",
    "workers.group.TURN": "tests/workers/test_group.py::test_every_row_is_exactly_one_workers",
    "theory.walks.LARGEST": f"{THEORY}::test_what_is_too_large_to_build_is_refused_and_what_fits_is_built",
    "theory.separation.MOST_WALKS": f"{THEORY}::test_walks_too_many_to_list_leave_the_verdict_open",
    "theory.separation.PAIRS_AT_ONCE": f"{THEORY}::test_a_report_says_the_same_in_pieces_of_any_size",
    "theory.comparison.SMALL": f"{THEORY}::test_a_verdict_is_the_same_on_either_side_of_small",
    "theory.probe.CHUNK": f"{THEORY}::test_a_report_says_the_same_in_pieces_of_any_size",
    "theory.symmetry.LARGEST": f"{THEORY}::test_symmetries_are_searched_up_to_a_size",
    "theory.computation_trees.LARGEST": f"{THEORY}::test_what_is_too_large_to_build_is_refused_and_what_fits_is_built",
}
NO_SIZES = {
    "cli.source.LARGE": "from here on a bar is drawn; what is read is the same",
    "compiled.UNUSED_DAYS": "days",
    "errors.COMPARED": "names among which a near one is looked for: an error without one says the same",
    "files.PRIVATE": "a mode",
    "files.PRIVATE_FOLDER": "a mode",
    "ingest.feature_columns.SAMPLED": "values that a guess looks at, where rows are skipped anyway",
    "events.categories.BITS": "bits of a hash",
    "events.kernels.FNV": "a hash",
    "events.kernels.LOW_24": "bits",
    "events.kernels.LOW_32": "bits",
    "events.kernels.MIX_1": "a hash",
    "events.kernels.MIX_2": "a hash",
    "events.kernels.START": "a hash",
    "events.seal.DIGEST": "bytes of a format",
    "events.seal.SEAL": "bytes of a format",
    "events.show.LETTERS": "letters of a cell in a notebook",
    "events.store.THRIFT_LIMIT": "the largest that Arrow takes: no limit",
    "ingest.textfile.LOOKED_AT": "cells by which a header is told from data",
    "events.times.EXACT": "a property of float64",
    "events.ties.OTHER_SIDE": "a hash",
    "live.difference.BLOCKS": "how the interval is defined",
    "live.difference.DRAWS": "how the interval is defined",
    "live.prequential.ENOUGH": "how drift is defined; tests/live/test_prequential.py tries just below",
    "live.prequential.HISTORY": "points of a drawing",
    "live.prequential.STEP": "points of a drawing",
    "live.prequential.WINDOW": "how the figure is defined",
    "live.observing.NEVER": "no limit",
    "learn.memory_budget.PROGRAM": "bytes counted for the program; tests/learn/test_memory.py tries either side",
    "positions.relative.WIDTH": "the sketch's own default, which tests/learn/test_memory.py counts with",
    "neighbors.adjacency.ENTRY": "bytes of an entry",
    "neighbors.adjacency.NO_HUBS": "no limit",
    "neighbors.adjacency.SPARE": "how much the arenas of a small index grow",
    "neighbors.adjacency.SLACK": "a share of what is there: how much the arenas grow",
    "neighbors.kernels_draws.BLOCKS": "powers of two that int64 has",
    "neighbors.kernels_lookups.GOLDEN": "a hash",
    "neighbors.kernels_lookups.MIX_1": "a hash",
    "neighbors.kernels_lookups.MIX_2": "a hash",
    "learn.tasks.relation.CHOSEN_BY": "how the figure is defined: events that set the baseline",
    "learn.tasks.relation.FEW": "how the figure is defined: questions that set the baseline of a relation",
    "learn.tasks.relation.RANKED_PAIRS": "how the figure is defined: events that are ranked after an epoch",
    "models.message_passing.RELATION_WIDTH": "a width of the model",
    "neighbors.kernels_storage.SIZES": "powers of two that int64 has",
    "positions.kernels_arena.EMPTY": "bits",
    "positions.kernels_arena.HALF": "bits",
    "positions.kernels_arena.SHIFT": "bits",
    "positions.kernels_arena.SPREAD_A": "a hash",
    "positions.kernels_arena.SPREAD_B": "a hash",
    "positions.kernels_arena.TOP_BYTE": "bits",
    "positions.kernels_arena.UNSPREAD_A": "a hash",
    "positions.kernels_arena.UNSPREAD_B": "a hash",
    "positions.kernels_arena.WINDOW": "WIDTH in another type",
    "positions.kernels_sketch.LINE": "numbers that come from memory together: a hint to the processor",
    "positions.exact.SLACK": "a share of what is there: how much the arena grows",
    "report.charts.BINS": "bars of a drawing",
    "report.spread.BLOCKS": "how the interval is defined",
    "report.spread.DRAWS": "how the interval is defined",
    "drawing.plot.HEIGHT": "pixels",
    "drawing.plot.WIDTH": "pixels",
    "theory.walks.EXACT": "a property of float64",
    "theory.data_report.PROBED": "how the figure is defined: links that are drawn for it",
}
ELSEWHERE = {"serve": "tests/serve"}
"""Packages whose limits have tests of their own."""


def modules():
    for path in sorted((ROOT / "src" / "pintgn").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if path.name not in ("__init__.py", "__main__.py") and name.split(".")[1] not in ELSEWHERE:
            yield name, ast.parse(path.read_text())


def constants():
    """Names in upper case that a module gives to whole numbers of 16 and more."""
    for name, tree in modules():
        targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
        targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
        named = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        for constant in (one for one in named if one.isupper()):
            value = getattr(importlib.import_module(name), constant)
            if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 16:
                yield f"{name.removeprefix('pintgn.')}.{constant}"


def test_every_constant_that_is_a_size_has_its_test():
    found = set(constants())
    assert found == SIZES.keys() | NO_SIZES.keys()
    assert not SIZES.keys() & NO_SIZES.keys()
    for place in (*SIZES.values(), *ELSEWHERE.values()):
        path, _, test = place.partition("::")
        assert (ROOT / path).exists(), place
        assert not test or f"def {test}(" in (ROOT / path).read_text(), place


def test_no_piece_has_a_size_without_a_name():
    """Steps of a range, and batches: a number that stands there alone could be tested by nobody."""
    bare = []
    for name, tree in modules():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            called = getattr(call.func, "id", getattr(call.func, "attr", ""))
            step = {"range": call.args[2:3], "batches": call.args[:1]}.get(called, [])
            numbers = [node.value for one in step for node in ast.walk(one) if isinstance(node, ast.Constant)]
            if any(isinstance(number, int) and number >= 16 for number in numbers):
                bare.append(f"{name}:{call.lineno}")
    assert bare == [place for place in bare if place.startswith("pintgn.check:")], "give it a name in upper case"
