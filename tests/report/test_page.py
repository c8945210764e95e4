from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import pintgn
from pintgn.errors import BadFile, BadInput
from pintgn.events.log import EventLog

VOID = {"meta", "br", "path", "circle", "rect"}


class Parsed(HTMLParser):
    """Whether every tag is closed where it should be; ids, links and the text of the page."""

    def __init__(self, html: str):
        super().__init__()
        self.open, self.wrong = [], []
        self.ids, self.links, self.loaded, self.words = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.loaded += [(tag, name) for name in given if name in ("src", "srcset", "data", "poster", "action")]
        self.loaded += [(tag, "href") for name in given if name.endswith("href") and tag != "a"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_well_formed_and_its_links_lead_somewhere(page):
    parsed = Parsed(page[1])
    assert not parsed.wrong
    assert not parsed.open
    assert len(parsed.ids) == len(set(parsed.ids)) > 10
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)


def test_the_page_loads_nothing(page):
    html = page[1]
    assert not Parsed(html).loaded
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script|<link|<iframe|<img|javascript:", html)
    assert "default-src 'none'" in html


def test_the_page_holds_the_numbers_of_the_runs_own_results(page, run, without):
    words = " ".join(Parsed(page[1]).words)
    for one in (run, without):
        for group, name in (("all", "ap"), ("seen", "ap"), ("new", "ap"), ("all", "auc"), ("all", "chunked_ap")):
            assert f"{100 * one.test[group][name]:.2f}" in words
    for figures in run.heuristics.values():
        assert f"{100 * figures['all']['ap']:.2f}" in words
    for kind, rows in pintgn.evaluate(run, negatives=["historical", "inductive", "per-event"]).negatives.items():
        assert f"{100 * rows['pint']['new']['auc']:.2f}" in words, kind


def test_the_verdict_says_what_the_figures_say(page):
    report, html = page
    best = max(
        report.figures["rows"].items(), key=lambda row: row[1]["trained"] and row[1]["random"]["all"]["ap"]["value"]
    )
    assert report.headline.startswith(best[0])
    assert f"{100 * best[1]['random']['all']['auc']['value']:.1f} %" in report.headline
    assert "95 % interval" in str(report)
    assert report.summary[0].startswith("Measured on 210 events")
    assert report.headline.replace(" %", "\u00a0%") in html


def test_a_model_no_better_than_counting_is_told_so(tmp_path):
    rng = np.random.default_rng(0)
    noise = EventLog(rng.integers(0, 30, 900), rng.integers(0, 30, 900), np.arange(900))
    report = pintgn.write_report(pintgn.fit(pintgn.PINT(dim=4), noise, epochs=0), tmp_path / "noise.html")
    assert re.search("the model is (no better|worse)", str(report))


def test_the_same_runs_give_the_same_page_byte_for_byte(page, place, tmp_path):
    pintgn.write_report([place / "pint", place / "without"], tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page[1]


def test_users_ids_and_columns_are_escaped(tmp_path):
    rng = np.random.default_rng(0)
    evil = [f"<script>alert({k})</script>&\"'" for k in range(12)]
    log = pintgn.read_events(
        {
            "<b>from": [evil[k] for k in rng.integers(0, 12, 400)],
            "to&": [evil[k] for k in rng.integers(0, 12, 400)],
            "t": np.arange(400),
            "<i>amount": rng.random(400),
        },
        src="<b>from",
        dst="to&",
        features=["<i>amount"],
    )
    run = pintgn.fit(pintgn.PINT(dim=4), log, folder=tmp_path / "<run>", epochs=1)
    pintgn.write_report(run, tmp_path / "page.html", names=["<u>me</u>"])
    html = (tmp_path / "page.html").read_text()
    for raw in ("<script", "<b>from", "<i>amount", "<u>", "<run>"):
        assert raw not in html
    assert "&lt;i&gt;amount" in html
    parsed = Parsed(html)
    assert not parsed.wrong
    assert not parsed.open


def test_a_probability_is_named_for_what_it_is_and_so_is_its_error(page):
    report, html = page
    words = " ".join("".join(Parsed(html).words).split())
    assert "Against one random destination" in words
    assert "What comes next" in words
    for name, row in report.to_dict()["rows"].items():
        error = row["next_calibration_error"]
        assert (error is not None) == row["trained"], name
        if row["trained"]:
            assert 0 <= error < 1
            assert f"{name} {100 * error:.1f}" in words


def some_log(events, nodes, t=None, **columns) -> EventLog:
    rng = np.random.default_rng(events)
    times = np.sort(rng.integers(0, 3 * events, events)) if t is None else t
    return EventLog(rng.integers(0, nodes, events), rng.integers(0, nodes, events), times, **columns)


ODD = {
    "few events": (some_log(70, 4, np.arange(70)), "pint", {}),
    "few times": (some_log(300, 10, np.repeat(np.arange(6), 50)), "pint", {}),
    "fractions of a second": (some_log(300, 10, np.linspace(0, 1e-3, 300)), "pint", {}),
    "nanoseconds": (some_log(300, 10, 1_700_000_000_000_000_000 + np.arange(300) * 10**9), "pint", {}),
    "negative times": (some_log(300, 10, np.arange(-300, 0)), "pint", {}),
    "self-loops only": (EventLog(*(np.arange(300) * 7 % 11,) * 2, np.arange(300)), "pint", {}),
    "labels": (some_log(300, 10, label=np.arange(300) % 2), "pint", {}),
    "nobody hidden": (some_log(300, 10), "pint", {"hidden": 0}),
    "the paper's protocol": (some_log(300, 10), "pint", {"protocol": "paper"}),
    "no training": (some_log(300, 10), "pint", {"epochs": 0}),
    "nothing to learn": (some_log(300, 10), "edgebank", {}),
    "memory": (some_log(300, 10), "tgn", {}),
    "nodes only": (some_log(300, 10), "ctdne", {}),
}


@pytest.mark.filterwarnings("ignore::pintgn.errors.PintgnWarning")
@pytest.mark.parametrize("name", ODD)
def test_odd_logs_and_models_make_a_whole_page(name, tmp_path):
    log, model, settings = ODD[name]
    report = pintgn.write_report(pintgn.fit(model, log, **({"epochs": 1} | settings)), tmp_path / "odd.html")
    html = (tmp_path / "odd.html").read_text()
    parsed = Parsed(html)
    assert not parsed.wrong
    assert not parsed.open
    assert not re.search(r"\bnan\b|\binf\b|None", " ".join(parsed.words))
    assert not re.search(r'"[^"]*\b(nan|inf)\b', "".join(re.findall(r"<svg.*?</svg>", html, re.S)))
    assert report.headline


def test_what_is_missing_is_said_not_left_blank(tmp_path):
    pintgn.write_report(pintgn.fit("pint", ODD["nobody hidden"][0], epochs=1, hidden=0), tmp_path / "page.html")
    words = " ".join(Parsed((tmp_path / "page.html").read_text()).words)
    assert "Every node of a validation event was seen in training." in words
    pintgn.write_report(pintgn.fit("ctdne", ODD["nodes only"][0]), tmp_path / "page.html")
    assert "It does not score links." in (tmp_path / "page.html").read_text()


def test_kinds_of_your_own_lead_the_page(run, tmp_path):
    def first_one(part, rng):
        return part.query.toward(np.full(len(part), part.dst[0]))

    report = pintgn.write_report(run, tmp_path / "own.html", negatives={"always the first": first_one})
    assert "always the first" in report.headline
    assert list(report.figures["fallback"])[:2] == ["always the first", "random"]


def test_nothing_is_left_half_written(run, tmp_path):
    with pytest.raises(BadInput, match=r"does not end in \.html"):
        pintgn.write_report(run, tmp_path / "page.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="no folder"):
        pintgn.write_report(run, tmp_path / "file" / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
