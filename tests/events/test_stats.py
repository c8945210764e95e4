from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from pintgn.events.log import EventLog
from pintgn.events.splits import time_scale

rows = st.lists(st.tuples(*[st.integers(0, 2)] * 4), max_size=25).map(sorted)


@given(rows, st.booleans())
def test_counts_equal_a_plain_count(rows, with_features):
    t, src, dst, feature = np.array(rows, int).reshape(-1, 4).T
    log = EventLog(src, dst, t, features=feature[:, None] if with_features else None)
    stats = log.statistics()
    seen, repeats, met, repeated = set(), 0, set(), 0
    for row in rows:
        key = row if with_features else row[:3]
        repeats += key in seen
        seen.add(key)
        repeated += row[1:3] in met
        met.add(row[1:3])
    assert stats.exact_repeats == repeats
    assert stats.repeated_links == repeated
    assert stats.simultaneous == sum([r[0] for r in rows].count(r[0]) > 1 for r in rows)
    assert stats.self_loops == sum(r[1] == r[2] for r in rows)
    last: dict[int, int] = {}
    gaps = []
    for time, a, b, _ in rows:
        for node in {a, b}:
            if node in last:
                gaps.append(time - last[node])
            last[node] = time
    assert (stats.node_gaps.count if stats.node_gaps else 0) == len(gaps)
    if gaps:
        assert stats.node_gaps.mean == np.mean(gaps)
    assert np.isclose(time_scale(log.src, log.dst, log.t), (gaps and np.mean(gaps)) or 1)


def test_enron_is_as_published(shared_data):
    table = pq.read_table(shared_data("enron"))
    stats = EventLog(table["src"].to_numpy(), table["dst"].to_numpy(), table["t"].to_numpy()).statistics()
    assert (stats.events, stats.nodes, stats.self_loops, stats.distinct_times) == (125_235, 184, 16_410, 22_632)
    assert stats.largest_group == 1705
    assert round(stats.simultaneous / stats.events, 2) == 0.96
    assert round(stats.exact_repeats / stats.events, 2) == 0.70


def test_an_empty_log_has_statistics():
    stats = EventLog([], [], []).statistics()
    assert (stats.events, stats.span, stats.event_gaps, stats.bipartite) == (0, 0, None, False)
