"""Two questions to one model: against anyone, and against pairs that met before but not now."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import pintgn
from pintgn import PINT, Query, evaluate, fit
from pintgn.cli.app import app
from pintgn.errors import BadInput
from pintgn.live.predict import predict
from pintgn.serve.api import create_app
from pintgn.serve.service import Service
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run that answers both questions, and one that answers one."""
    made = {}
    for name, historical in (("both", True), ("one", False)):
        made[name] = tmp_path_factory.mktemp("questions") / name
        fit(PINT(dim=8, neighbors=4, historical=historical), random_log(600), folder=made[name], **QUICK)
    return made


def test_a_score_is_the_models_logit_of_the_question_that_is_asked(folders):
    live = pintgn.open(folders["both"])
    at = live.time_of()
    asked = Query(np.array([3]), np.array([5]), np.array([at]))
    for against in ("anyone", "known"):
        expected = live.stream.score(asked, against).item()
        assert live.score(3, 5, against=against) == {5: pytest.approx(expected)}
    assert live.score(3, 5) == live.score(3, 5, against="anyone")
    assert live.score(3, 5) != live.score(3, 5, against="known")


def test_each_question_has_a_calibration_which_a_run_keeps(folders):
    run = pintgn.Run.open(folders["both"])
    assert run.calibration is not None
    assert run.calibration_known is not None
    assert run.calibration != run.calibration_known
    live = pintgn.open(folders["both"])
    logit = live.score(3, 5, against="known")[5]
    expected = run.calibration_known(np.array([logit]))[0]
    assert live.probability(3, 5, against="known")[5] == pytest.approx(expected)
    assert pintgn.Run.open(folders["one"]).calibration_known is None


def test_who_asks_a_question_that_a_run_cannot_answer_is_told_how_to_train(folders):
    live = pintgn.open(folders["one"])
    with pytest.raises(BadInput, match=r"against='known'; this run answers against 'anyone'\. Train with --set model"):
        live.score(3, 5, against="known")
    with pytest.raises(BadInput, match="this run answers against 'anyone' or 'known'"):
        pintgn.open(folders["both"]).score(3, 5, against="nobody")


def test_negatives_are_scored_by_the_question_they_ask_with_the_one_score_row_beside(folders):
    run = pintgn.Run.open(folders["both"])
    found = evaluate(run, negatives=["random", "historical", "inductive"], baselines=()).negatives
    assert list(found["random"]) == ["pint"]
    for kind in ("historical", "inductive"):
        assert list(found[kind]) == ["pint", "pint, one score"]
        assert found[kind]["pint"]["all"]["ap"] != found[kind]["pint, one score"]["all"]["ap"]
    papers = evaluate(run, negatives="historical", baselines=(), protocol="paper").negatives["historical"]
    assert list(papers) == ["pint", "pint, one score"]
    several = evaluate([run, run], negatives="historical", baselines=()).negatives["historical"]
    assert several["pint, one score"]["all"]["ap"][1] == 0.0
    plain = evaluate(pintgn.Run.open(folders["one"]), negatives="historical", baselines=()).negatives
    assert list(plain["historical"]) == ["pint"]


def test_tables_commands_and_the_service_take_the_question_too(folders, tmp_path):
    live = pintgn.open(folders["both"])
    pairs = {"src": [3, 4], "dst": [5, 6]}
    expected = [live.score(s, d, against="known")[d] for s, d in zip(*pairs.values(), strict=True)]
    table = predict(live, pairs, against="known")
    assert table["logit"].to_pylist() == pytest.approx(expected)
    (tmp_path / "pairs.csv").write_text("src,dst\n3,5\n4,6\n")
    command = ["predict", str(folders["both"]), str(tmp_path / "pairs.csv"), "--against", "known", "--json"]
    found = json.loads(CliRunner().invoke(app, command).stdout)["pairs"]
    assert [row["logit"] for row in found] == pytest.approx(expected)
    with Service.open(folders["both"], tmp_path / "store") as service, TestClient(create_app(service)) as client:
        body = {"pairs": [{"src": 3, "dst": 5}, {"src": 4, "dst": 6}], "against": "known"}
        answer = client.post("/score", json=body).json()
        assert [row["logit"] for row in answer["scores"]] == pytest.approx(expected)
        assert [row["probability"] for row in answer["scores"]] == pytest.approx(table["probability"].to_pylist())
        refused = client.post("/score", json=body | {"against": "nobody"})
        assert refused.status_code == 422
        assert "against" in refused.json()["message"]
    with Service.open(folders["one"], tmp_path / "other") as service, TestClient(create_app(service)) as client:
        refused = client.post("/score", json={"src": 3, "dst": 5, "against": "known"})
        assert (refused.status_code, "this run answers against 'anyone'" in refused.json()["message"]) == (422, True)


def test_many_pairs_have_probabilities_as_scikit_learn_shapes_them(run_folder):
    live = pintgn.open(run_folder)
    pairs = [("person 1", "person 2"), ("person 3", "person 4"), ("nobody", "person 1")]
    found = live.predict_proba(pairs)
    expected = [live.probability(src, dst)[dst] for src, dst in pairs]
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_array_equal(live.predict_proba(pd.DataFrame(pairs)), found)
    assert live.predict_proba([]).shape == (0, 2)
    with pytest.raises(BadInput, match=r"\(src, dst\), two columns"):
        live.predict_proba(["person 1", "person 2"])
