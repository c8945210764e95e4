from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import pintgn
from pintgn.datasets.simulate import simulate
from pintgn.errors import UnknownName
from pintgn.events.log import Query
from pintgn.models.base import Model
from pintgn.models.registry import MODELS, model_class, model_name
from pintgn.stream import Stream

LOG = simulate("repeat", events=300)


@pytest.mark.parametrize("name", MODELS)
def test_every_name_gives_a_documented_model_that_runs_with_its_defaults(name, tmp_path):
    cls = model_class(name)
    assert issubclass(cls, Model)
    assert model_name(cls) == name
    settings = [p for p in inspect.signature(cls.__init__).parameters if p != "self"]
    assert cls().settings().keys() == set(settings)
    assert cls.__doc__
    assert "Args:" in cls.__doc__

    model = cls()
    model.prepare(LOG)
    stream = Stream(model, LOG.schema)
    stream.observe(LOG)
    t = int(LOG.t[-1]) + 1
    with torch.no_grad():
        embedded = stream.embed([0, 1, 2000], at=t)
        assert embedded.shape[0] == 3
        assert torch.isfinite(embedded).all()
        stream.save(tmp_path / "stream")
        again = Stream.open(tmp_path / "stream")
        torch.testing.assert_close(again.embed([0, 1, 2000], at=t), embedded)
        if name != "ctdne":
            scores = stream.score(Query(np.array([0, 1]), np.array([1, 2000]), np.array([t, t])))
            assert scores.shape == (2,)
            assert torch.isfinite(scores).all()


def test_a_near_miss_is_suggested():
    with pytest.raises(UnknownName, match="Did you mean 'tgat'"):
        model_class("tgta")


def test_every_model_of_the_table_has_a_public_name():
    for name in MODELS:
        cls = model_class(name)
        assert getattr(pintgn, cls.__name__) is cls
