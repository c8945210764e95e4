"""The page in a browser: a person finds a node, sees what is likely next, and why; with a mouse or a keyboard alone."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest

from pintgn import PINT, fit, read_events
from tests.conftest import ROOT
from tests.serve.helpers import happened, trained

PAGES = ROOT / "src" / "pintgn" / "serve" / "pages"
SCRIPTS = sorted(PAGES.glob("*.js"))
NASTY = '<img src=x onerror="window.hacked=1">'
SLASHED = "a/b?c#d&e=f %2F"
NOON = 1_700_000_000


# -- without a browser -----------------------------------------------------------------------------------------------


def test_the_page_holds_no_inline_code_and_nothing_from_elsewhere():
    page = (PAGES / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    for file in [PAGES / "index.html", *SCRIPTS, *PAGES.glob("*.css")]:
        assert not re.search(r"https?://(?!www\.w3\.org/)", file.read_text()), f"{file.name} needs the network"
    for name in re.findall(r'(?:src|href)="static/([^"]+)"', page):
        assert (PAGES / name).exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_text_from_outside_cannot_become_markup(script):
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script.read_text()
    )
    assert len(script.read_text().splitlines()) < 400


# -- with one --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose ids are as unpleasant as ids get, and whose times are dates."""
    columns = happened(240)
    renamed = {"person 1": NASTY, "person 2": SLASHED, "person 3": "Zoë 漢字 " + "x" * 60}
    for end in ("src", "dst"):
        columns[end] = [renamed.get(name, name) for name in columns[end]]
    columns["t"] = np.datetime64(NOON - 20_000, "s") + 40 * (np.array(columns["t"]) - 1_000)
    return trained(tmp_path_factory.mktemp("page") / "run", columns)


@contextlib.contextmanager
def serving(folder, store, keys=None):
    """A service on a port of its own; gives its address and a way to end it."""
    import uvicorn

    from pintgn.serve.api import create_app
    from pintgn.serve.service import Options, Service

    with Service.open(folder, store, Options(evaluate_every=1)) as service:
        config = uvicorn.Config(create_app(service, keys), port=0, log_level="error", ws="none", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        stop = lambda: setattr(server, "should_exit", True) or setattr(server, "force_exit", True)  # noqa: E731
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/", stop
        finally:
            stop()
            thread.join()


@pytest.fixture(scope="module")
def address(folder, tmp_path_factory):
    with serving(folder, tmp_path_factory.mktemp("page") / "store") as (address, _):
        yield address


class Page:
    """What a person does on the page."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address
        self.size(1280, 900)
        driver.get("about:blank")
        driver.get(address)

    def size(self, width, height):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def get(self, **given):
        """Open the page at an address that names a node, and perhaps a pair."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}#{urllib.parse.urlencode(given, quote_via=urllib.parse.quote)}")

    def all(self, selector):
        from selenium.webdriver.common.by import By

        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.until(lambda: self.all(selector), selector)[0]

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def js(self, code, *given):
        return self.driver.execute_script(code, *given)

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.js("const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent")

    def until(self, true, what="that", seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := true():
                return found
            time.sleep(0.03)
        raise AssertionError(f"waited in vain for {what}; the console says {self.driver.get_log('browser')}")


@pytest.fixture
def page(browser, address):
    browser.get_log("browser")  # what earlier pages said
    made = Page(browser, address)
    yield made
    assert browser.get_log("browser") == [], "the console is silent"


def asked(address, path, **given):
    with urllib.request.urlopen(f"{address}{path}?{urllib.parse.urlencode(given)}") as answer:
        return json.load(answer)


def send(address, events):
    body = json.dumps({"events": [dict(zip(("src", "dst", "t"), event, strict=True)) for event in events]}).encode()
    request = urllib.request.Request(f"{address}events", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_a_node_is_found_its_future_seen_and_explained(page, address):
    page.until(lambda: page.text("#events") == "240", "the number of events")
    assert page.text("#health") == "live"
    assert page.text("#model").startswith("ModelPINT")
    page.one("#search").send_keys("PERSON 1")
    first = page.one("#found li[role=option]")
    assert first.text == "person 10", "ids are found whatever their case"
    first.click()
    page.until(lambda: len(page.all("#next li")) == 10, "recommendations")
    best = asked(address, "recommend/person%2010")["items"]
    assert [link.get_attribute("title") for link in page.all("#next .name")] == [one["dst"] for one in best]
    assert page.js("return document.querySelectorAll('#tree svg .tree-node').length") > 5
    assert re.search(r"\d (s|min|h)", page.text("#tree .edge-time"))
    page.one("#next .why").click()
    page.one("#why-body .main li")
    told = asked(address, "explain", src="person 10", dst=best[0]["dst"])
    first = page.js("return [...document.querySelectorAll('#why-body .main .what')].map((e) => e.textContent)")
    assert first == [one["text"] for one in told["main"]], "what matters most comes first"
    assert len(first) == 3
    assert not page.one("#why-body .summary li").is_displayed(), "the rest is folded"
    page.one("#why-body .rest > summary").click()
    assert [line.text for line in page.all("#why-body .summary li")] == told["summary"]
    assert len(page.js("return [...document.querySelectorAll('#why-body .reasons li')]")) == len(
        told["reasons"] + told["neighbors"]
    )
    assert page.all("#history-legend li")


def test_everything_can_be_reached_from_the_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    page.until(lambda: page.text("#events") != "–")
    page.keys("/")
    assert page.focused() == "search"
    page.keys("person 1")
    page.until(lambda: page.js("return !document.getElementById('found').hidden"), "the list")
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    marked = page.js(
        "const chosen = document.getElementById('search').getAttribute('aria-activedescendant');"
        "return document.getElementById(chosen).textContent"
    )
    page.keys(Keys.ARROW_UP, Keys.ARROW_DOWN, Keys.ENTER)
    page.until(lambda: page.focused() == "node-title", "the focus on the node")
    assert page.text("#node-title") == f"Node {marked}"
    page.one("#next .why")
    for _ in range(100):
        page.keys(Keys.TAB)
        if (page.focused() or "").startswith("Why "):
            break
    asked_about = page.focused()
    page.keys(Keys.ENTER)
    page.until(lambda: page.focused() == "why-title", "the focus on the explanation")
    page.one("#why-body .summary li")
    page.keys(Keys.TAB)
    assert page.focused() == "why-close"
    page.keys(Keys.ENTER)
    page.until(lambda: page.js("return document.getElementById('why').hidden"), "the explanation to close")
    assert page.focused() == asked_about, "the focus goes back to where it came from"


def test_escape_closes_the_list_and_unknown_ids_are_new_nodes(page):
    from selenium.webdriver.common.keys import Keys

    page.until(lambda: page.text("#events") != "–")
    page.one("#search").send_keys("person")
    page.one("#found li[role=option]")
    page.keys(Keys.ESCAPE)
    assert page.one("#search").get_attribute("aria-expanded") == "false"
    page.one("#search").clear()
    page.one("#search").send_keys("nobody yet")
    page.until(lambda: "No id begins with" in page.text("#found"), "a word about it")
    page.keys(Keys.ENTER)
    page.until(lambda: "never seen before" in page.text("#node-facts"), "a new node")
    page.until(lambda: page.all("#next li"), "recommendations all the same")


@pytest.mark.parametrize("id", [NASTY, SLASHED, "Zoë 漢字 " + "x" * 60])
def test_ids_are_shown_as_they_are_and_never_run(page, id):
    page.get(node=id, why=NASTY)
    page.one("#why-body .summary li")
    page.until(lambda: page.all("#next li"), "recommendations")
    assert page.js("return document.querySelector('#node-title span:last-child').title") == id
    assert page.js("return window.hacked === undefined && document.querySelectorAll('main img').length === 0")
    assert page.text("#node-facts").startswith("Contacts")
    assert "none" not in page.text("#node-facts")


def test_the_page_follows_the_stream(page, address):
    page.get(node="person 5", why="person 6")
    page.one("#history-legend li")
    before = asked(address, "status")
    start = before["clock"] + 60
    send(address, [("person 5", "person 6", start + k) for k in range(120)])
    page.until(lambda: page.text("#events") == f"{before['events'] + 120}", "the new count")
    page.until(lambda: "eager" in page.one("#refresh").get_attribute("class"), "a hint at newer events")
    page.until(
        lambda: page.js("return document.querySelector('#history-chart polyline').points.length") >= 2, "a history"
    )
    page.until(lambda: page.all("#quality-chart polyline"), "the quality over time")
    contacts = page.text("#node-facts")
    page.one("#refresh").click()
    page.until(lambda: page.text("#node-facts") != contacts, "newer facts")


def test_dark_and_light_as_the_system_says_or_as_chosen(page):
    def background():
        return page.js("return getComputedStyle(document.body).backgroundColor")

    def system(name):
        feature = {"name": "prefers-color-scheme", "value": name}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    page.until(lambda: page.text("#events") != "–")
    system("light")
    light = background()
    system("dark")
    dark = background()
    assert light != dark
    page.one("#theme").click()
    assert page.text("#theme") == "Theme: light"
    assert background() == light
    page.driver.refresh()
    assert background() == light, "the choice stays"
    page.one("#theme").click()
    system("light")
    assert background() == dark
    page.one("#theme").click()
    page.until(lambda: page.text("#events") != "–")


@pytest.mark.parametrize("width", [340, 700, 1280])
def test_nothing_is_cut_off_on_screens_of_any_width(page, width):
    page.size(width, 800)
    page.get(node="Zoë 漢字 " + "x" * 60, why=NASTY)
    page.one("#why-body .reasons li")
    page.until(lambda: page.all("#next li"), "recommendations")
    assert page.js("return document.documentElement.scrollWidth <= innerWidth")


def test_long_ids_keep_their_ends_and_their_whole_text(page):
    """Of ids that begin alike, the end is what tells them apart; what is copied or read aloud is the whole id."""
    long = "Zoë 漢字 " + "x" * 60
    for width in (340, 1280):
        page.size(width, 800)
        page.get(node="person 5", why=long)
        page.one("#why-body .main li")
        shown = page.js("""
            const id = document.querySelector('#why-title .id:last-child'), [head, tail] = id.children;
            const edge = document.getElementById('why').getBoundingClientRect().right;
            return [id.textContent, tail.textContent, head.scrollWidth > head.clientWidth,
              tail.getBoundingClientRect().right < edge]""")
        assert shown == [long, "x" * 8, width == 340, True]


def test_fingers_get_hints_and_targets_of_their_own(page):
    def visible(selector):
        return page.js("return document.querySelector(arguments[0]).offsetParent !== null", selector)

    page.until(lambda: page.text("#events") != "–")
    assert visible("#search-hint .keys")
    assert not visible("#search-hint .touch")
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        page.get(node="person 5")
        page.one("#next .why")
        assert visible("#search-hint .touch")
        assert not visible("#search-hint .keys")
        assert page.js("return document.querySelector('#next .why').offsetHeight") >= 36
    finally:
        page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_every_control_has_a_name(page):
    page.get(node="person 5", why="person 6")
    page.one("#why-body .reasons li")
    page.until(lambda: page.all("#next li"), "recommendations")
    nameless = page.js("""
        return [...document.querySelectorAll("button, input, select, a, [role=img], [role=meter], [role=group]")]
          .filter((e) => e.offsetParent !== null || e instanceof SVGElement)
          .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby")
            || e.labels?.length)).map((e) => e.outerHTML)""")
    assert nameless == []
    ids = page.js("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_large_whole_numbers_stay_exact(page):
    told = page.driver.execute_async_script("""
        const [done] = arguments, real = window.fetch;
        window.fetch = async () => new Response('{"id": 1152921504606846977, "t": 12.5, "n": 7}');
        import("./static/api.js").then(async (api) => {
          const answer = await api.get("anything");
          window.fetch = real;
          const sent = api.json({ pairs: [{ src: answer.id, dst: "x" }] });
          done([String(answer.id), typeof answer.t, typeof answer.n, sent]);
        });""")
    assert told == ["1152921504606846977", "number", "number", '{"pairs":[{"src":1152921504606846977,"dst":"x"}]}']


def test_the_key_is_asked_for_and_a_service_that_is_gone_is_noticed(browser, folder, tmp_path):
    from pintgn.serve.api_keys import Keys

    (tmp_path / "key").write_text(secret := "a key that nobody else has")
    with serving(folder, tmp_path / "store", Keys.of_file(tmp_path / "key")) as (address, stop):
        page = Page(browser, address)
        page.until(lambda: page.js("return document.getElementById('key-dialog').open"), "the question for the key")
        assert page.focused() == "key"
        page.keys("something else entirely\n")
        page.until(lambda: page.js("return !document.getElementById('key-wrong').hidden"), "a no")
        assert page.text("#events") == "–"
        page.keys(f"{secret}\n")
        page.until(lambda: page.text("#events") == "240", "the number of events")
        assert page.js("return Object.values(sessionStorage).length") == 1
        assert page.js("return Object.values(localStorage).includes(arguments[0])", secret) is False
        stop()
        page.until(lambda: "does not answer" in page.text("#banner"), "the banner")
        assert page.text("#health") == "no answer"
    browser.get("about:blank")
    browser.get_log("browser")  # refusals are errors to the console


def test_the_same_id_on_both_sides_is_two_nodes(browser, tmp_path):
    rng = np.random.default_rng(0)
    source = {"src": rng.integers(0, 6, 200), "dst": rng.integers(0, 9, 200), "t": np.arange(200)}
    fit(PINT(dim=4), read_events(source, bipartite=True), folder=tmp_path / "run", epochs=1)
    with serving(tmp_path / "run", tmp_path / "store") as (address, _):
        page = Page(browser, address)
        page.get(node="3")
        page.until(lambda: page.all("#next li"), "recommendations")
        assert page.text("#node-facts").startswith("Sidesource")
        contacts = int(np.count_nonzero(source["src"] == 3)), int(np.count_nonzero(source["dst"] == 3))
        assert f"Contacts{contacts[0]}F" in page.text("#node-facts")
        link = next(link for link in page.all("#next .name") if link.text == "3")
        link.click()
        page.until(lambda: page.text("#node-facts").startswith("Sidedestination"), "the other node")
        assert f"Contacts{contacts[1]}F" in page.text("#node-facts")
        page.until(lambda: "A destination" in page.text("#next-note"), "a word about it")
        assert page.all("#next li") == []
        page.one("#tree .tree-node:not(.root)").click()
        page.until(lambda: page.text("#node-facts").startswith("Sidesource"), "one of its sources")
        browser.get("about:blank")  # before the service ends, or the page asks and is refused
    assert browser.get_log("browser") == []


def test_every_route_is_described_in_the_browser(page, address):
    page.driver.get(f"{address}docs")
    described = asked(address, "openapi.json")["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    page.until(lambda: len(page.all("#api details")) == len(routes), "all routes")
    assert {one.text for one in page.all("#api summary code")} == routes
    event = next(one for one in page.all("#api details") if "POST /events" in one.text)
    event.click()
    for word in ("curl -X POST", "scores", "src", "accepted"):
        assert word in event.text, word


def test_the_page_is_asked_for_again_after_an_update(address):
    for path in ("", "static/main.js"):
        with urllib.request.urlopen(address + path) as answer:
            assert answer.headers["Cache-Control"] == "no-cache"
            assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_drift_is_plain_to_see(page, address):
    status = asked(address, "status")
    status["quality"] |= {
        "drift": True,
        "ap_rolling": 0.71,
        "reference_ap": 0.95,
        "judged": 900,
        "window": 900,
        "history": [[NOON + k, 0.95 - k / 40] for k in range(10)],
    }
    page.until(lambda: page.text("#events") != "–")
    told = page.driver.execute_async_script(
        """
        const [status, done] = arguments;
        import("./static/status.js").then((module) => {
          module.showStatus(status);
          const pill = document.getElementById("drift");
          done([pill.textContent, pill.className, document.querySelectorAll("#quality-chart .short").length,
            document.querySelector("#quality-chart svg").getAttribute("aria-label")]);
        });""",
        status,
    )
    assert told[:3] == ["Drift: harder than the test part", "pill warn", 1]
    assert told[3] == "Average precision over time, now 0.710, on the test part 0.950; it drifts"


# -- a run that predicts a column --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    columns = happened(240, features=True)
    log = read_events(columns | {"tip": columns["amount"]}, features=["amount", "kind"], label="tip")
    folder = tmp_path_factory.mktemp("page") / "asking"
    fit("boosted", log, folder=folder, predict="kind", given=["amount"], hidden=0.0, progress=False)
    with serving(folder, folder.parent / "store") as (address, _):
        yield address


def test_an_event_is_asked_about_with_what_is_given(browser, asking):
    browser.get_log("browser")
    page = Page(browser, asking)
    page.one("#ask-form button")
    assert page.text("#ask-title") == "Ask: kind"
    assert not page.one("#likely").is_displayed()
    assert not page.one("#followed").is_displayed()
    page.one("#ask-src").send_keys("person 1")
    page.one("#ask-dst").send_keys(NASTY)
    page.one("#given-0").send_keys("30")
    page.one("#ask-form button").click()
    page.one("#ask-answer .shares li")
    body = json.dumps({"pairs": [{"src": "person 1", "dst": NASTY, "given": {"amount": 30.0}}]}).encode()
    request = urllib.request.Request(f"{asking}score", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        said = json.load(answer)["scores"][0]
    assert page.text("#ask-answer .big").startswith(f"kind={said['kind']}")
    assert "unknown" in page.text("#ask-answer")
    page.one("#ask-answer button").click()
    page.one("#why-body .main li")
    assert page.text("#why-body .big").startswith("kind=")
    page.one("#why-close").click()
    assert not page.one("#why").is_displayed()
    assert page.js("return window.hacked") is None
    page.size(1000, 800)
    shares = (
        "return [...document.querySelectorAll('#model dd')].map((e) => e.clientWidth / e.parentElement.clientWidth)"
    )
    assert min(page.js(shares)) > 0.4, "names as long as those of training-free rows leave room for figures"
    page.size(390, 800)
    assert page.js("return document.documentElement.scrollWidth") <= 390
    assert browser.get_log("browser") == []
