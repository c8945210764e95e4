"""The files in examples/operations name what there is: metrics, options, files."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time

import httpx
import pytest

from pintgn.serve.api import create_app
from pintgn.serve.service import Service
from tests.conftest import ROOT
from tests.serve.helpers import TRAINED, TestClient, as_events
from tests.serve.victims import Served

FOLDER, CLUSTER = ROOT / "examples" / "operations", ROOT / "examples" / "cluster"


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
    unused |= {"pintgn_quality_waiting", "pintgn_quality_given_up"}
    assert families - shown == unused | {"pintgn_snapshots_total", "pintgn_snapshot_bytes", "pintgn_event"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_commands_in_the_examples_have_the_options_they_use():
    from typer.main import get_command

    from pintgn.cli.app import app

    serve = {option for one in get_command(app).commands["serve"].params for option in one.opts}
    keys = {option for one in get_command(app).commands["keys"].commands["add"].params for option in one.opts}
    files = [FOLDER / name for name in ("pintgn.service", "Dockerfile", "prometheus.yml")]
    files += [CLUSTER / name for name in ("pintgn-writer.service", "pintgn-replica.service", "compose.yaml")]
    for file in files:
        text = re.sub(r"\\\n#?\s*", " ", file.read_text())
        for kind, known in ((" serve ", serve), (" keys add ", keys)):
            for line in (line for line in text.splitlines() if kind in line):
                assert set(re.findall(r" (--[a-z-]+)", line.partition(kind)[2])) <= known, line


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_retraining_script_trains_beside_a_service_and_promotes(run_folder, columns, tmp_path):
    """The whole of it: real commands, a real service, which takes events meanwhile and serves the new run after it."""
    run = tmp_path / "shop"
    shutil.copytree(run_folder, run)
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    service = Served(run, run / "live")
    try:
        with service.client() as client:
            first = next(k for k in range(TRAINED, 500) if columns["t"][k] > columns["t"][TRAINED - 1])
            client.post("/events", json={"events": as_events(columns, first, 500)}).raise_for_status()
            command = [FOLDER / "retrain.sh", run, f"http://127.0.0.1:{service.port}", "--force"]
            done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made = next(tmp_path.glob("shop-*"))
            models = client.get("/models").json()
            assert models["active"] == str(made)
            assert models["history"][-1]["state"] == "promoted"
            client.post("/events", json={"events": as_events(columns, 500, 520)}).raise_for_status()
            assert client.get("/health").json()["event"] == 520 - first
    finally:
        service.bury()


def test_what_was_never_run_says_so():
    for file in (FOLDER / "Dockerfile", CLUSTER / "compose.yaml"):
        assert "NOT RUN" in file.read_text().splitlines()[0]


def test_the_cluster_is_of_one_piece():
    """What nginx asks is what the compose file starts; one store, and replicas that only follow."""
    import yaml

    services = yaml.safe_load((CLUSTER / "compose.yaml").read_text())["services"]
    asked = set(re.findall(r"server ([\w-]+):8000", (CLUSTER / "nginx.conf").read_text()))
    assert asked == services.keys() - {"database", "proxy"}
    commands = {name: services[name]["command"] for name in asked}
    assert len({re.search(r"--store (\S+)", command)[1] for command in commands.values()}) == 1
    assert {name for name, command in commands.items() if "--follow" in command} == {"replica-a", "replica-b"}


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_behind_nginx_events_reach_the_writer_whoever_that_is(run_folder, columns, cluster, tmp_path):
    address = cluster.database()
    services = {name: Served(run_folder, address, waits=True) for name in ("writer-a", "writer-b")}
    services["replica-a"] = services["replica-b"] = None
    nginx = None
    try:
        for one in ("writer-a", "writer-b"):
            services[one].started()
        services["replica-a"] = services["replica-b"] = Served(run_folder, address, "--follow", waits=True)
        services["replica-a"].started()
        nginx, port = started_nginx(tmp_path, {name: one.port for name, one in services.items()})
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            taken = client.post("/events", json={"events": as_events(columns, TRAINED, 300, keyed=True)}).json()
            assert client.get(f"/nodes?min_event={taken['event']}").json()["event"] == 60
            next(one for one in services.values() if health(one.port)["taking"]).kill()
            for _ in range(600):
                answer = client.post("/events", json={"events": as_events(columns, TRAINED, 320, keyed=True)})
                if answer.status_code == 200:
                    break
                time.sleep(0.1)
            told = answer.json()
            assert (told["accepted"], told["duplicates"], told["event"]) == (20, 60, 80)
            assert client.get("/health?min_event=80").json()["role"] == "follower"
    finally:
        if nginx is not None:
            nginx.terminate()
            nginx.wait()
        for one in {id(one): one for one in services.values() if one is not None}.values():
            one.bury()


def health(port):
    return httpx.get(f"http://127.0.0.1:{port}/health").json()


def started_nginx(folder, ports):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (CLUSTER / "nginx.conf").read_text().replace("listen 8000", f"listen 127.0.0.1:{port}")
    for name, own in ports.items():
        text = text.replace(f"{name}:8000", f"127.0.0.1:{own}")
    (folder / "pintgn.conf").write_text(text)
    here = f"client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/answers; access_log off;"
    (folder / "nginx.conf").write_text(
        f"daemon off; user root; pid {folder}/pid; error_log {folder}/errors; events {{}} "
        f"http {{ {here} include {folder}/pintgn.conf; }}"
    )
    nginx = subprocess.Popen(["nginx", "-c", folder / "nginx.conf"], stderr=subprocess.DEVNULL)
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return nginx, port
        assert nginx.poll() is None, (folder / "errors").read_text()
        time.sleep(0.05)
    raise AssertionError("nginx did not start")
