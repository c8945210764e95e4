"""The files in examples/operations name what there is: metrics, options, files."""

from __future__ import annotations

import json
import re

import pytest

from pintgn.serve.app import create_app
from pintgn.serve.service import Service
from tests.conftest import ROOT
from tests.serve.helpers import TestClient

FOLDER = ROOT / "examples" / "operations"


@pytest.fixture(scope="module")
def metrics(run_folder, tmp_path_factory):
    """Every metric that a service has, with its labels."""
    with Service.open(run_folder, tmp_path_factory.mktemp("operations") / "store") as service:
        client = TestClient(create_app(service))
        client.post("/events", json={"events": []})
        client.post("/events", json=[{"src": "ann", "dst": "bob", "t": 9_000 + k} for k in range(60)])
        text = client.get("/metrics").text
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels = re.match(r"(\w+)(?:\{(.*)\})? ", line).groups()
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


def test_the_dashboard_shows_metrics_that_there_are(metrics):
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    used = set()
    for panel in dashboard["panels"]:
        assert panel["targets"]
        for target in panel["targets"]:
            names = re.findall(r"pintgn_\w+", target["expr"])
            used.update(names)
            assert set(names) <= metrics.keys(), panel["title"]
            by = re.search(r"by \(([^)]*)\)", target["expr"])
            labels = set(by[1].split(", ")) if by else set()
            assert labels <= metrics[names[0]], panel["title"]
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
    families = {re.sub("_bucket$|_sum$|_count$", "", name) for name in metrics}
    shown = {re.sub("_bucket$", "", name) for name in used}
    unused = {"pintgn_clock", "pintgn_events_per_second", "pintgn_quality_scored", "pintgn_dropped_total"}
    assert families - shown == unused | {"pintgn_snapshots_total", "pintgn_snapshot_bytes"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_commands_in_the_examples_have_the_options_they_use():
    from typer.main import get_command

    from pintgn.cli.app import app

    serve = {option for one in get_command(app).commands["serve"].params for option in one.opts}
    keys = {option for one in get_command(app).commands["keys"].commands["add"].params for option in one.opts}
    for name in ("pintgn.service", "Dockerfile", "prometheus.yml"):
        text = re.sub(r"\\\n#?\s*", " ", (FOLDER / name).read_text())
        for kind, known in ((" serve ", serve), (" keys add ", keys)):
            for line in (line for line in text.splitlines() if kind in line):
                assert set(re.findall(r" (--[a-z-]+)", line.partition(kind)[2])) <= known, line


def test_what_was_never_run_says_so():
    assert "NOT RUN" in (FOLDER / "Dockerfile").read_text().splitlines()[0]
