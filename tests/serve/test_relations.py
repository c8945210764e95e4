"""A service whose run was trained with relations."""

import pytest

import pintgn
from pintgn.learn.run import Run
from pintgn.serve.app import create_app
from pintgn.serve.service import Service
from tests.learn.test_relations import asked, facts
from tests.serve.helpers import TestClient


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relations") / "run"
    pintgn.fit(asked(), facts(200), folder=folder, progress=False)
    with Service(Run.open(folder), folder.parent / "store") as service, TestClient(create_app(service)) as made:
        yield made


def test_pairs_are_scored_by_the_relation_that_is_given(client):
    pairs = [{"src": 3, "dst": 1, "given": {"type": word}} for word in ("likes", "owns", "^likes")]
    found = client.post("/score", json={"pairs": pairs}).json()["scores"]
    assert len({row["logit"] for row in found}) == 3
    both = client.post("/score", json={"src": 3, "dst": [1, 2], "given": {"type": "likes"}}).json()["scores"]
    assert both[0]["logit"] == pytest.approx(found[0]["logit"], abs=1e-5)
    for given, said in (({}, "this run asks by 'type'"), ({"type": "lykes"}, "Did you mean 'likes'?")):
        answer = client.post("/score", json={"src": 3, "dst": 1, "given": given})
        assert answer.status_code == 422
        assert said in answer.text
    assert "this run asks by 'type'" in client.post("/score", json={"src": 3, "dst": 1}).text


def test_destinations_are_recommended_by_relation(client):
    items = client.get("/recommend/3", params={"relation": "likes", "k": 3}).json()["items"]
    assert len(items) == 3
    assert client.get("/recommend/3").status_code == 422
    event = {"src": 3, "dst": 1, "t": 500, "features": {"type": "likes"}}
    assert client.post("/events", json=event).json()["accepted"] == 1
    again = client.get("/recommend/3", params={"relation": "likes", "k": 3}).json()["items"]
    assert [item["logit"] for item in again] != [item["logit"] for item in items]
