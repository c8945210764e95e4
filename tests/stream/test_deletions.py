"""Deletions and node events, end to end: they are events that carry marks, and models see them as such."""

from __future__ import annotations

import numpy as np
import torch

from pintgn import ADD, DELETE, NODE, Columns, EventLog, read_events
from pintgn.events.log import Query
from pintgn.models.pint import PINT
from pintgn.stream import Stream


def score_after(op: int) -> float:
    log = EventLog([0, 0, 0], [1, 2, 1], [1, 2, 3], op=[ADD, ADD, op])
    stream = Stream(PINT(dim=8), log.schema)
    stream.observe(log)
    with torch.no_grad():
        return stream.score(Query(np.array([0]), np.array([1]), np.array([4]))).item()


def test_a_deletion_is_not_an_addition():
    assert score_after(DELETE) != score_after(ADD)


def test_a_node_event_reaches_the_score_through_its_features():
    scores = []
    for value in (0.0, 5.0):
        log = EventLog([0, 1], [1, 1], [1, 2], op=[ADD, NODE], node_updates=[[value]])
        for memory in (0, 4):
            stream = Stream(PINT(dim=8, memory=memory), log.schema, memory_block=1)
            stream.observe(log)
            with torch.no_grad():
                scores.append(stream.score(Query(np.array([0]), np.array([1]), np.array([4]))).item())
    assert scores[0] != scores[2]
    assert scores[1] != scores[3]


def test_a_real_stream_with_deletions_trains(shared_data):
    log = read_events(shared_data("as733_adddel"), columns=Columns(op="op"))
    assert (log.op == DELETE).sum() == 1107
    assert log.schema.width == 2  # the marks
    model = PINT(dim=16, neighbors=5, memory=8).build(log.schema)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(5):
        stream, total = Stream(model, log.schema), []
        for batch in log.batches(500):
            added = batch.query[(batch.op == ADD) & (batch.t > 0)]  # nothing precedes the first snapshot
            yes, no = stream.replay(batch, [added, added.toward(rng.choice(log.dst, len(added)))])
            if len(added):
                loss = torch.nn.functional.softplus(-yes).mean() + torch.nn.functional.softplus(no).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total.append(loss.item() / 2)
        losses.append(np.mean(total))
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]
