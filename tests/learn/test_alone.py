"""Logs without destinations, such as purchases in one shop: each event is a self-loop of its source."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pintgn
from pintgn.cli.app import app
from pintgn.errors import BadInput
from pintgn.learn.run import Run
from pintgn.serve.api import create_app
from pintgn.serve.models import promote
from pintgn.serve.service import Service
from tests.serve.helpers import TestClient

ASKED = {"predict": "return", "within": 20.0, "hidden": 0.0, "progress": False}


@pytest.fixture(scope="module")
def purchases():
    rng = np.random.default_rng(0)
    customer = [f"c{k}" for k in rng.integers(0, 40, 600) * rng.integers(0, 2, 600)]
    return pd.DataFrame({"customer": customer, "t": np.arange(600), "eur": rng.random(600)})


@pytest.fixture(scope="module")
def log(purchases):
    return pintgn.read_events(purchases, "customer", None)


def test_a_log_without_destinations_has_no_other_nodes(log, purchases, tmp_path):
    assert np.array_equal(log.src, log.dst)
    assert log.nodes == purchases.customer.nunique()
    log.save(tmp_path / "log.parquet")
    again = pintgn.EventLog.open(tmp_path / "log.parquet")
    assert again.schema.alone
    assert np.array_equal(again.dst, log.dst)
    with pytest.raises(BadInput, match=r"bipartite.*dst=None"):
        pintgn.read_events(purchases, "customer", None, bipartite=True)


def test_whether_a_customer_returns_is_asked_of_a_log_without_destinations(log, purchases, tmp_path):
    run = pintgn.fit(pintgn.PINT(dim=8), log, folder=tmp_path / "run", epochs=1, **ASKED)
    figures = pintgn.evaluate(run).negatives["return within 20.0"]
    assert figures["pint"]["all"]["events"] > 10
    live = pintgn.open(tmp_path / "run")
    found = live.predict(pd.DataFrame({"customer": ["c1", "nobody"]}))
    assert found.notes.tolist() == ["", "unknown src"]
    assert live.observe([("c1", None, 700), ("c2", "c2", 701)]) == 2
    assert live.observe(pd.DataFrame({"customer": ["c1"], "t": [702]})) == 1
    with pytest.raises(BadInput, match=r"no destination.*'c1'.*'shop'"):
        live.observe([("c1", "shop", 703)])
    why = live.explain("c1")
    assert any(reason.text.startswith("c1 acted") for reason in why.reasons)
    assert "itself" not in f"{why.details()} {why}"


@pytest.mark.parametrize("predict", ["return", "eur"])
def test_a_service_of_a_log_without_destinations_is_asked_by_sources(log, purchases, tmp_path, predict):
    given = ASKED if predict == "return" else {"predict": "eur", "progress": False, "hidden": 0.0}
    asked = log if predict == "return" else pintgn.read_events(purchases, "customer", None, features=["eur"])
    pintgn.fit(pintgn.PINT(dim=8), asked, folder=tmp_path / "run", epochs=1, **given)
    with Service(Run.open(tmp_path / "run"), tmp_path / "live") as service, TestClient(create_app(service)) as client:
        both = client.post("/score", json={"src": "c1", "dst": "c1"}).json()["scores"]
        assert client.post("/score", json={"src": "c1"}).json()["scores"] == both
        several = client.post("/score", json={"pairs": [{"src": "c1"}, {"src": "nobody"}]}).json()["scores"]
        assert [(one["src"], one["notes"]) for one in several] == [("c1", ""), ("nobody", "unknown src")]
        told = client.post("/score", json={"pairs": [{"src": "c1"}, {"dst": "c1"}]})
        assert told.status_code == 422
        assert "pair 1 has no src" in told.json()["message"]
        if predict == "return":
            with pytest.raises(BadInput, match=r"'return within 20.0'.*no single event.*--force"):
                promote(service, tmp_path / "run")
            candidate = promote(service, tmp_path / "run", force=True)
            candidate.join(60)
            assert candidate.state == "promoted", candidate.said


def test_links_of_a_log_without_destinations_are_refused(log):
    with pytest.raises(BadInput, match=r"no destinations.*return"):
        pintgn.fit("pint", log, epochs=1, progress=False)


def test_a_shop_with_one_destination_can_be_asked_who_returns(purchases):
    log = pintgn.read_events(purchases.assign(shop="shop"), "customer", "shop")
    assert pintgn.fit(pintgn.PINT(dim=8), log, epochs=1, **ASKED).test["all"]["events"]
    with pytest.raises(BadInput, match="one destination"):
        pintgn.fit("pint", log, epochs=1, hidden=0.0, progress=False)


@pytest.mark.parametrize("seed", range(20))
def test_the_only_destination_is_never_hidden(purchases, seed):
    log = pintgn.read_events(purchases.assign(shop="shop"), "customer", "shop")
    train = log.split()[0]
    hidden = pintgn.hidden_nodes(log, train, hidden=0.5, seed=seed)
    assert hidden.sum() == log.nodes // 2
    assert not hidden[log.dst].any()


def test_the_command_takes_a_file_without_destinations_and_hints_only_at_columns_of_ids(purchases, tmp_path):
    path = tmp_path / "shop.parquet"
    purchases.assign(cds=np.arange(600) % 7 + 1.0).to_parquet(path)
    asked = ["--predict", "return", "--within", "20", "--set", "hidden=0.0", "--set", "dim=8", "--set", "epochs=1"]
    told = CliRunner().invoke(app, ["train", str(path), *asked, "-o", str(tmp_path / "run")])
    assert told.exit_code == 0, told.exception
    assert "no column of destinations" in told.stderr
    told = CliRunner().invoke(app, ["data", "info", str(path)])
    assert "--dst customer" in str(told.exception)
    assert "--dst cds" not in str(told.exception)
    assert CliRunner().invoke(app, ["data", "info", str(path), "--src", "customer", "--dst", "customer"]).exit_code == 0
