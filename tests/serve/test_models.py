"""A new model without a stop: it sees the same events, is compared on the same ones, and takes over between two."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time

import numpy as np
import pytest

from pintgn import fit, read_events
from pintgn.errors import BadFile, BadInput
from pintgn.learn.run import Run
from pintgn.live.difference import compared
from pintgn.live.live import Live
from pintgn.models.registry import model_class
from pintgn.serve import answers
from pintgn.serve import models as models_module
from pintgn.serve import writer as writer_module
from pintgn.serve.api import create_app
from pintgn.serve.export import full_log
from pintgn.serve.limits import NotWriter, Options
from pintgn.serve.model_history import FILE, open_models
from pintgn.serve.models import promote
from pintgn.serve.service import Service
from pintgn.serve.store_backup import back_up, restore
from tests.feed.helpers import Alive, ran
from tests.serve.helpers import SMALL, TRAINED, TestClient, as_batch, as_events, assert_same_state, replayed, trained

EVERY = 2


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory, columns):
    """Another run of the same log."""
    return trained(tmp_path_factory.mktemp("models") / "other", columns, dim=12)


@pytest.fixture(scope="module")
def longer_folder(tmp_path_factory, columns):
    """A run of the same log and the first 100 events after it."""
    head = {name: column[: TRAINED + 100] for name, column in columns.items()}
    folder = tmp_path_factory.mktemp("models") / "longer"
    fit(model_class("pint").from_settings(SMALL["pint"]), read_events(head), folder=folder, epochs=1, batch=80)
    return folder


def opened(run, folder, **more):
    return Service.open(run, folder, Options(**({"snapshot_every": 10**6, "evaluate_every": EVERY} | more)))


def ended(candidate):
    candidate.join(60)
    assert not candidate.is_alive()
    return candidate.state


def reached(candidate, state):
    for _ in range(600):
        if candidate.state == state or not candidate.busy:
            break
        time.sleep(0.05)
    assert candidate.state == state, candidate.said


def until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def after(run, columns, stop, covered=0):
    """A clean replay of the events that a run's log does not cover."""
    live = Live(Run.open(run), None, None, EVERY, covered)
    live.observe_batch(as_batch(live, columns, TRAINED + covered, stop))
    return live


@pytest.mark.parametrize("which", ["other_folder", "longer_folder"])
def test_a_candidate_takes_over_and_is_as_if_it_had_always_served(run_folder, columns, new_store, which, request):
    where = new_store()
    path = request.getfixturevalue(which)
    covered = 100 if which == "longer_folder" else 0
    with opened(run_folder, where) as service:
        service.observe(as_events(columns, TRAINED, 400))
        candidate = promote(service, path, enough=20)
        reached(candidate, "compared")
        for begin in range(400, 600, 25):
            assert service.observe(as_events(columns, begin, begin + 25))["total"] == begin + 25
        if candidate.difference is None or not candidate.difference.worse:
            assert ended(candidate) == "promoted", candidate.said
        else:  # learned figures are not ours to promise
            assert ended(candidate) == "rejected"
            assert ended(promote(service, path, force=True)) == "promoted"
        assert service.run.folder.path == path
        assert service.live.covered == covered
        service.observe(as_events(columns, 600, 700))
        assert service.live.events == 700
        assert_same_state(service.live, after(path, columns, 700, covered))
        assert len(full_log(service.live, service.store)) == 700
    with opened(run_folder, where) as service:  # and after a restart, whichever run is named
        assert service.run.folder.path == path
        assert service.replayed == 0, "from a snapshot of its own"
        service.observe(as_events(columns, 700, 720))
        assert_same_state(service.live, after(path, columns, 720, covered))


def test_back_at_will(run_folder, other_folder, columns, new_store):
    where = new_store()
    with opened(run_folder, where) as service:
        service.observe(as_events(columns, TRAINED, 400))
        with pytest.raises(BadInput, match="no run was promoted"):
            promote(service, None)
        assert ended(promote(service, other_folder, force=True)) == "promoted"
        service.observe(as_events(columns, 400, 500))
        assert ended(promote(service, None)) == "promoted"
        assert service.run.folder.path == run_folder
        service.observe(as_events(columns, 500, 600))
        expected = replayed(run_folder, columns, 600)
        expected.prequential = service.live.prequential  # scored at another rate
        assert_same_state(service.live, expected)
    with opened(other_folder, where) as service:
        assert service.run.folder.path == run_folder
        assert [entry["state"] for entry in service.writer.models.entries] == ["promoted", "promoted"]


def test_what_is_worse_beyond_chance_is_rejected_and_changes_nothing(
    run_folder, other_folder, columns, new_store, monkeypatch
):
    where = new_store()
    with opened(run_folder, where) as service:
        service.observe(as_events(columns, TRAINED, 300))
        candidate = promote(service, other_folder, enough=30)
        reached(candidate, "compared")
        scored = candidate._mine_scored
        # it scores the negative where the event was meant
        candidate.live.prequential.on_scored = lambda numbers, rows: scored(
            numbers, [(no - 9, yes + 9) for yes, no in rows]
        )
        service.observe(as_events(columns, 300, 600))
        assert ended(candidate) == "rejected"
        assert "worse than what is served" in candidate.said
        assert service.run.folder.path == run_folder
        expected = replayed(run_folder, columns, 600)
        expected.prequential = service.live.prequential
        assert_same_state(service.live, expected)
        entry = service.writer.models.entries[-1]
        assert entry["interval"][1] < 0
        assert entry["scored"] >= 30
        assert service.live.prequential.on_scored is None
    assert open_models(where).active is None


def test_both_are_scored_on_the_same_events_against_the_same_destinations(run_folder, columns, tmp_path):
    """The same run beside itself: no difference at all."""
    copy = tmp_path / "copy"
    shutil.copytree(run_folder, copy)
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(as_events(columns, TRAINED, 300))
        candidate = promote(service, copy, enough=60)
        reached(candidate, "compared")
        service.observe(as_events(columns, 300, 600))
        assert ended(candidate) == "promoted"
        assert candidate.difference.new == pytest.approx(candidate.difference.old, abs=1e-3)
        assert candidate.difference.low <= 0 <= candidate.difference.high
        numbers = sorted(candidate._theirs)
        assert set(numbers) <= set(candidate._mine)
        mine, theirs = (np.array([one[n] for n in numbers]) for one in (candidate._mine, candidate._theirs))
        assert np.allclose(mine, theirs, atol=1e-4)


@pytest.mark.slow
def test_an_interval_covers_zero_about_as_often_as_it_should():
    rng, inside = np.random.default_rng(0), 0
    for k in range(60):
        truth = rng.normal(size=(300, 2)) + np.array([1.0, 0.0])
        found = compared(truth + rng.normal(size=(300, 2)), truth + rng.normal(size=(300, 2)), seed=k)
        inside += found.low <= 0 <= found.high
        assert not compared(truth + 2 * rng.normal(size=(300, 2)), truth, seed=k).worse
    assert 50 <= inside <= 60


def test_a_kill_serves_the_one_or_the_other(run_folder, other_folder, columns, tmp_path, monkeypatch):
    """The choice is on the disk before the state changes; a copy of the folder at that moment is what a kill leaves."""
    import pintgn.serve.model_history as module

    real = module.ModelHistory.save

    def copied(self):
        shutil.copytree(tmp_path / "a", tmp_path / "before", dirs_exist_ok=True)
        real(self)
        shutil.copytree(tmp_path / "a", tmp_path / "after", dirs_exist_ok=True)

    with opened(run_folder, tmp_path / "a") as service:
        service.observe(as_events(columns, TRAINED, 400))
        with monkeypatch.context() as patched:
            patched.setattr(module.ModelHistory, "save", copied)
            candidate = promote(service, other_folder, force=True)
            for _ in range(600):
                if (tmp_path / "after" / FILE).exists():
                    break
                time.sleep(0.01)
            assert ended(candidate) == "promoted"
    for name in ("before", "after"):
        with opened(run_folder, tmp_path / name) as service:
            served = service.run.folder.path
            assert served in (run_folder, other_folder)
            assert_same_state(service.live, after(served, columns, 400))


def test_services_that_follow_serve_what_was_promoted(run_folder, other_folder, longer_folder, columns, cluster):
    where = cluster.database()
    with opened(run_folder, where) as first, opened(run_folder, where, follow=True) as second:
        first.observe(as_events(columns, TRAINED, 400))
        with pytest.raises(NotWriter, match="Ask that one"):
            promote(second, other_folder)
        for path, covered in ((other_folder, 0), (longer_folder, 100)):
            assert ended(promote(first, path, force=True)) == "promoted"
            first.observe(as_events(columns, first.live.events, first.live.events + 50))
            until(lambda path=path: second.run.folder.path == path and second.live.total == first.live.total)
            assert second.live.covered == covered
            assert_same_state(second.live, first.live)
            assert answers.models(second)["active"] == str(path)
            assert not second.reports
        assert [entry["state"] for entry in answers.models(second)["history"]] == ["promoted", "promoted"]
        assert second.writer.models.entries == first.writer.models.entries
    with opened(run_folder, where) as service:  # whichever run is named
        assert service.run.folder.path == longer_folder
        assert service.replayed == 0, "from a snapshot of its own"
        assert_same_state(service.live, after(longer_folder, columns, 500, 100))


def test_a_run_that_is_not_on_a_machine_is_said_and_its_own_answers_go_on(
    run_folder, other_folder, columns, cluster, tmp_path
):
    """Each machine has its own files: what was promoted on one may not be on another."""
    where, copy = cluster.database(), tmp_path / "copy"
    shutil.copytree(other_folder, copy)
    with opened(run_folder, where) as first:
        first.observe(as_events(columns, TRAINED, 300))
        with opened(run_folder, where, follow=True) as second:
            assert ended(promote(first, copy, force=True)) == "promoted"
            until(lambda: second.run.folder.path == copy)
        shutil.rmtree(copy)
        with opened(run_folder, where) as third, TestClient(create_app(third)) as client:
            assert third.role == "standby"
            assert third.run.folder.path == run_folder
            health = client.get("/health").json()
            assert health["status"] == "degraded"
            assert health["run"] == run_folder.name
            assert f"{copy} was promoted, and is not served here: it is not on this machine" in health["reports"][0]
            first.observe(as_events(columns, 300, 350))
            until(lambda: third.live.total == first.live.total)
            assert_same_state(third.live, after(run_folder, columns, 350))


def test_a_store_whose_first_events_were_dropped_takes_runs_that_hold_them(
    run_folder, other_folder, longer_folder, columns, new_store
):
    with opened(run_folder, new_store()) as service:
        service.observe(as_events(columns, TRAINED, TRAINED + 60))
        service.snapshot().result(30)
        assert service.call(lambda: service.store.drop(60)).result() == 60
        service.observe(as_events(columns, TRAINED + 60, 400))
        candidate = promote(service, other_folder, force=True)
        assert ended(candidate) == "failed"
        assert "the first 60 live events were dropped from the store" in candidate.said
        assert ended(promote(service, longer_folder, force=True)) == "promoted"
        assert_same_state(service.live, after(longer_folder, columns, 400, 100))
        assert not service.reports


@pytest.mark.parametrize("which", ["other_folder", "longer_folder"])
def test_a_backup_holds_the_run_that_is_served(run_folder, columns, tmp_path, which, request):
    path, store = request.getfixturevalue(which), tmp_path / "store"
    covered = 100 if which == "longer_folder" else 0
    with opened(run_folder, store) as service:
        service.observe(as_events(columns, TRAINED, 400))
        assert ended(promote(service, path, force=True)) == "promoted"
        service.observe(as_events(columns, 400, 500))
        made = back_up(run_folder, store, tmp_path / "backup.tar")
        assert made["run"] == service.run.fingerprint
    facts = restore(tmp_path / "backup.tar", tmp_path / "again")
    assert facts["events"] == 260
    with opened(tmp_path / "again", tmp_path / "again" / "live") as service:
        assert service.run.folder.path == tmp_path / "again"
        assert_same_state(service.live, after(path, columns, 500, covered))
        assert ended(promote(service, run_folder, force=True)) == "promoted"  # and on from there
        assert ended(promote(service, None)) == "promoted"
        assert service.run.folder.path == tmp_path / "again"


def test_runs_of_other_logs_are_refused_in_one_line(run_folder, rich_folder, columns, tmp_path):
    wrong = dict(columns, dst=["somebody else", *columns["dst"][1:]])
    strange = trained(tmp_path / "strange", wrong, "heuristic")
    shorter = {name: column[:200] for name, column in columns.items()}
    fit("heuristic", read_events(shorter), folder=tmp_path / "shorter")
    ahead = {name: column[:500] for name, column in columns.items()}
    fit("heuristic", read_events(ahead), folder=tmp_path / "ahead")
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(as_events(columns, TRAINED, 300))
        for path, said in [
            (strange, "its log is not the one that is served"),
            (tmp_path / "shorter", "its log is not the one that is served"),
            (tmp_path / "ahead", "its log is not the one that is served"),
            (rich_folder, "its log has other features"),
        ]:
            candidate = promote(service, path)
            assert ended(candidate) == "failed"
            assert said in candidate.said
            assert "\n" not in candidate.said
        for path in (tmp_path / "nowhere", "x" * 5_000, "/" + "deep/" * 2_000, "a\0b"):
            with pytest.raises(BadInput, match="holds no run") as found:
                promote(service, path)
            assert len(str(found.value)) < 500
        candidate = promote(service, tmp_path / "strange", force=True)
        assert ended(candidate) == "failed"
        assert service.observe(as_events(columns, 300, 310))["accepted"] == 10
    with (
        opened(run_folder, tmp_path / "other", evaluate_every=0) as service,
        pytest.raises(BadInput, match="nothing can be compared"),
    ):
        promote(service, run_folder)


@pytest.mark.parametrize("name", ["run.json", "settings.toml", "events.parquet", "last.safetensors", "result.json"])
def test_a_candidate_that_can_never_be_read_is_refused_and_the_next_one_is_not(
    run_folder, other_folder, columns, tmp_path, name
):
    """A pipe in the place of a file: to open it would wait for ever."""
    copy = tmp_path / "copy"
    shutil.copytree(run_folder, copy)
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(as_events(columns, TRAINED, 300))
        if name == "run.json":
            with pytest.raises(BadInput, match="holds no run"):
                promote(service, copy)
        else:
            candidate = promote(service, copy)
            assert ended(candidate) == "failed"
            assert name in candidate.said
            assert "a pipe" in candidate.said
        assert ended(promote(service, other_folder, force=True)) == "promoted"


def test_a_stop_ends_while_a_candidate_waits_for_something_that_never_comes(run_folder, columns, tmp_path, monkeypatch):
    never, stopped = threading.Event(), threading.Event()
    service = opened(run_folder, tmp_path / "store")
    service.observe(as_events(columns, TRAINED, 300))
    monkeypatch.setattr(writer_module, "STOP", 0.2)
    monkeypatch.setattr(models_module.Run, "open", lambda *given, **more: never.wait())
    candidate = promote(service, run_folder, force=True)
    until(lambda: candidate.state == "opening")
    threading.Thread(target=lambda: (service.close(), stopped.set()), daemon=True).start()
    assert stopped.wait(60)
    assert candidate.is_alive()
    never.set()
    ended(candidate)
    monkeypatch.undo()
    with opened(run_folder, tmp_path / "store") as service:
        assert service.store.total == 300 - TRAINED


def test_a_disk_that_does_not_answer_is_not_waited_for(run_folder, other_folder, tmp_path, monkeypatch):
    """Neither by who asks, nor by who asks something else meanwhile; the next promotion is not refused."""
    never = threading.Event()
    with opened(run_folder, tmp_path / "store") as service:
        client = TestClient(create_app(service))
        with monkeypatch.context() as patched:
            patched.setattr(models_module, "LOOK", 0.2)
            patched.setattr(models_module, "holds_run", lambda run: never.wait())
            answer = client.post("/models", json={"run": str(other_folder), "force": True})
        assert answer.status_code == 422
        assert "has not answered" in answer.json()["message"]
        assert ended(promote(service, other_folder, force=True)) == "promoted"
    never.set()


def test_a_run_that_is_gone_is_said(run_folder, other_folder, columns, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(other_folder, copy)
    with opened(run_folder, tmp_path / "store") as service:
        assert ended(promote(service, copy, force=True)) == "promoted"
    shutil.rmtree(copy)
    with pytest.raises(BadFile, match="which was promoted, is gone"):
        opened(run_folder, tmp_path / "store")
    (tmp_path / "store" / FILE).write_text(json.dumps({"format": 99}))
    with pytest.raises(BadFile, match="newer pintgn"):
        opened(run_folder, tmp_path / "store")


def test_a_service_that_stops_gives_a_candidate_up(run_folder, other_folder, new_store):
    where = new_store()
    with opened(run_folder, where) as service:
        candidate = promote(service, other_folder)
        reached(candidate, "compared")
        with pytest.raises(BadInput, match="is a candidate already"):
            promote(service, other_folder)
    assert candidate.state == "failed"
    assert not candidate.is_alive()


def test_a_snapshot_of_the_run_that_was_served_before_is_no_damage(run_folder, other_folder, columns, tmp_path):
    with opened(run_folder, tmp_path) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 300)).result(30)
        service.snapshot().result(30)
    with opened(other_folder, tmp_path) as service:
        assert service.replayed == 60
        assert not service.reports
        assert answers.health(service)["status"] == "ok"


def test_over_http(run_folder, other_folder, columns, tmp_path):
    with opened(run_folder, tmp_path) as service, TestClient(create_app(service)) as client:
        for body in ({}, {"run": "x", "back": True}, {"rnu": "x"}, {"run": "nowhere"}, {"back": True}):
            assert client.post("/models", json=body).status_code == 422, body
        assert "'run', 'back', 'force', 'scored'" in client.post("/models", json={"unknown": 1}).json()["message"]
        answer = client.post("/models", json={"run": str(other_folder), "force": True})
        assert answer.status_code == 202
        ended(service.writer.candidate)
        told = client.get("/models").json()
        assert told["active"] == str(other_folder)
        assert told["candidate"] is None
        assert told["history"][-1]["state"] == "promoted"
        assert client.get("/status").json()["models"] == told
        assert client.post("/events", json=as_events(columns, TRAINED, 300)).json()["accepted"] == 60
        assert client.get("/recommend/person%201?k=2").status_code == 200


def test_from_the_command_line(run_folder, other_folder, columns, tmp_path):
    alive = Alive(run_folder, tmp_path, "--evaluate-every", "1")
    service = ["--service", alive.address]
    try:
        for arguments, said in [
            (["promote", *service], "name the new run, or say --back"),
            (["promote", "--back", *service], "no run was promoted"),
            (["promote", tmp_path / "nowhere", *service], "holds no run"),
            (["promote", other_folder, "--service", "http://127.0.0.1:1"], "does not answer"),
        ]:
            code, out, noise = ran(*arguments)
            assert (code, out, noise.count("\n")) == (2, "", 1), noise
            assert said in noise
        code, out, noise = ran("promote", other_folder, *service, "--scored", "20", "--no-wait", "--json")
        assert code == 0, noise
        assert json.loads(out)["candidate"]["run"] == str(other_folder)
        with alive.client() as client:
            while (at := client.get("/models").json()["candidate"])["state"] != "compared":
                time.sleep(0.05)
            assert at["enough"] == 20
            client.post("/events", json=as_events(columns, TRAINED, 500))
            while not (history := client.get("/models").json()["history"]):
                time.sleep(0.05)
            assert history[0]["state"] in ("promoted", "rejected")
            assert history[0]["interval"][0] <= history[0]["difference"] <= history[0]["interval"][1]
        code, out, noise = ran("promote", other_folder, *service, "--force", "--json")
        assert (code, json.loads(out)["state"]) == (0, "promoted"), noise
        code, out, noise = ran("promote", "--back", *service)
        assert code == 0, noise
        assert ": promoted, serves since event 260" in out
    finally:
        alive.served.bury()
