"""A service whose run was trained with relations."""

import pytest

import pintgn
from pintgn.learn.run import Run
from pintgn.serve.api import create_app
from pintgn.serve.service import Service
from tests.learn.test_relations import asked, facts
from tests.serve.helpers import TestClient
from tests.serve.test_page import Page, serving


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


def test_answers_are_explained_by_relation(client):
    why = client.get("/explain", params={"src": 3, "dst": 1, "relation": "^likes"}).json()
    assert why["relation"] == "^likes"
    assert len(why["sentences"]) == 3
    pair = [{"src": 3, "dst": 1, "given": {"type": "^likes"}}]
    assert why["logit"] == pytest.approx(
        client.post("/score", json={"pairs": pair}).json()["scores"][0]["logit"], abs=1e-4
    )
    for given, said in (({}, "this run asks by 'type'"), ({"relation": "lykes"}, "Did you mean 'likes'?")):
        answer = client.get("/explain", params={"src": 3, "dst": 1} | given)
        assert answer.status_code == 422
        assert said in answer.text
    assert client.get("/status").json()["model"]["relation"]["words"] == ["knows", "likes", "owns"]


@pytest.fixture(scope="module")
def page(tmp_path_factory, browser):
    folder = tmp_path_factory.mktemp("relations") / "page"
    pintgn.fit(asked(model={"pair_history": True}), facts(300), folder=folder, progress=False)
    with serving(folder, folder.parent / "store") as (address, _):
        yield Page(browser, address)


def test_a_person_chooses_a_relation_on_the_page(page):
    page.get(node="3")
    page.until(lambda: page.all("#next li"), "recommendations")
    assert "By type" in page.text("#by")
    first = page.text("#next-note")
    assert " by " in first
    other = "^likes"
    page.js("document.getElementById('relation').value = arguments[0]", other)
    page.js("document.getElementById('relation').dispatchEvent(new Event('change', {bubbles: true}))")
    page.until(lambda: f"by {other}." in page.text("#next-note"), "recommendations by another relation")
    page.one("#next .why").click()
    page.until(lambda: page.all("#why-body ol.main li"), "reasons")
    assert f"by {other}" in page.text("#why-title")
    assert " by " in page.text("#why-body")
    page.until(lambda: f"by {other}" in page.text("#history-legend"), "the pair that is followed")
    for width in (1280, 390):
        page.size(width, 900)
        assert page.js("return document.documentElement.scrollWidth") <= width
    page.get(node="3", why="1", by="owns")
    page.until(lambda: "by owns" in page.text("#why-title"), "a pair by the relation of its address")
    page.until(lambda: page.all("#why-body ol.main li"), "reasons")
    assert page.js("return document.getElementById('relation').value") == "owns"
    assert not [line for line in page.driver.get_log("browser") if line["level"] == "SEVERE"]
