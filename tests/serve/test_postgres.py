"""What only a store in PostgreSQL promises: one writer at a time, others that follow and take over, nothing silent."""

from __future__ import annotations

import contextlib
import json
import os
import time

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from pintgn.cli.app import app
from pintgn.errors import BadFile, BadInput
from pintgn.learn.run import Run
from pintgn.serve import answers
from pintgn.serve.api import create_app
from pintgn.serve.event_store import StoreFull, StoreGone, StoreLost
from pintgn.serve.limits import Limits, NotWriter, Options, Stopped
from pintgn.serve.postgres import PostgresStore
from pintgn.serve.recovery import accept_loss, undo_after
from pintgn.serve.service import Service
from tests.serve.helpers import TRAINED, TestClient, all_scores, as_batch, as_events, assert_same_state, replayed
from tests.serve.test_stores import batch

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")


@pytest.fixture
def address(cluster):
    return cluster.database()


def opened(address, follow=False) -> PostgresStore:
    return PostgresStore(address, "log", 0, np.dtype(np.int64), True, follow)


def until(happened, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def sent(service, columns, begin, end):
    return service.submit(as_batch(service.live, columns, begin, end, keyed=True)).result(30)


# -- one writer --------------------------------------------------------------------------------------------------------


def test_one_process_writes_and_the_others_wait(address):
    with opened(address) as first, opened(address) as second:
        assert (first.writes, second.writes) == (True, False)
        assert not second.take()
        assert "pintgn on" in second.holder()
        with pytest.raises(StoreLost, match="another process writes"):
            second.append(batch(range(3)))
        first.append(batch(range(3)))
        second.wait(5)
        assert second.total == 3
        first.close()
        until(second.take)
        assert second.append(batch(range(3, 5))) == 5


def test_several_that_start_at_once_make_one_store(address):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: opened(address), range(8)))
    assert [store.writes for store in stores].count(True) == 1
    for store in stores:
        store.close()


def test_a_writer_whose_connection_was_ended_never_commits_again(address, cluster):
    with opened(address) as zombie, opened(address) as other:
        zombie.append(batch(range(3), keys=["a", "b", "c"]))
        with psycopg.connect(address, autocommit=True) as db:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        until(other.take)
        for _ in range(2):
            with pytest.raises(StoreLost):
                zombie.append(batch(range(3, 6)))
        assert not zombie.writes
        with pytest.raises(StoreLost):
            zombie.check()
        other.append(batch(range(3, 5)))
        assert other.total == 5
        zombie.connect()
        assert (zombie.total, zombie.writes) == (5, False)


def test_a_writer_whose_lock_was_lost_but_not_its_connection_never_commits_again(address):
    """As behind a pool of connections, which may give the lock away: each writer has an epoch of its own."""
    with opened(address) as zombie, opened(address) as other:
        zombie.db.execute("SELECT pg_advisory_unlock_all()")
        assert other.take()
        with pytest.raises(StoreLost, match="another process writes to .* now"):
            zombie.append(batch(range(3)))
        assert other.append(batch(range(2))) == 2
        assert sum(len(part) for _, part in other.read()) == 2


def test_numbers_that_somebody_else_has_used_are_not_used_again(address):
    with opened(address) as store, psycopg.connect(address, autocommit=True) as db:
        db.execute("INSERT INTO pintgn_events (number, t, checksum) VALUES (2, 0, 0)")
        with pytest.raises(StoreLost):
            store.append(batch(range(3)))
        assert db.execute("SELECT count(*) FROM pintgn_events").fetchone() == (1,)


def test_a_commit_whose_answer_is_lost_is_not_acknowledged_and_counts_once(run_folder, columns, address, cluster):
    with Service.open(run_folder, address) as service:
        sent(service, columns, TRAINED, 300)
        changing = service.store.changing

        @contextlib.contextmanager
        def lossy(failed, more=0):
            with changing(failed, more) as db:
                yield db
            service.store.close()  # committed, but who knows
            raise StoreLost("the connection was lost.")

        service.store.changing = lossy
        with pytest.raises(StoreLost, match="not known"):
            sent(service, columns, 300, 330)
        del service.store.changing
        until(lambda: service.role == "writer")
        assert service.live.total == 90, "what had been kept counts, once"
        again = sent(service, columns, 300, 340)
        assert (again["accepted"], again["duplicates"]) == (10, 30)
        assert_same_state(service.live, replayed(run_folder, columns, 340))


def test_what_cannot_be_written_is_refused_and_nothing_of_it_is_kept(run_folder, columns, address):
    with Service.open(run_folder, address) as service, psycopg.connect(address, autocommit=True) as db:
        sent(service, columns, TRAINED, 260)
        db.execute("ALTER TABLE pintgn_events ADD CONSTRAINT full_disk CHECK (number < 30)")
        with pytest.raises(StoreFull, match="Nothing of them was kept"):
            sent(service, columns, 260, 280)
        assert not service.taking
        db.execute("ALTER TABLE pintgn_events DROP CONSTRAINT full_disk")
        assert sent(service, columns, 260, 300)["accepted"] == 40
        assert service.taking
        assert_same_state(service.live, replayed(run_folder, columns, 300))


# -- followers ---------------------------------------------------------------------------------------------------------


def test_a_follower_has_the_writers_state_bit_for_bit_at_every_event(run_folder, columns, address):
    options = Options(keep_last=3, retain_every=70)
    with Service.open(run_folder, address, options) as writer:
        sent(writer, columns, TRAINED, 300)
        writer.snapshot().result(30)
        follows = Options(keep_last=3, retain_every=70, follow=True)
        with Service.open(run_folder, address, follows) as follower:
            assert (follower.role, follower.replayed, follower.live.total) == ("follower", 0, 60), "from the snapshot"
            for begin in range(300, 500, 40):
                sent(writer, columns, begin, begin + 40)
                until(lambda: follower.live.total == writer.live.total)
                with writer.asking() as one, follower.asking() as other:
                    assert np.array_equal(all_scores(one), all_scores(other))
            assert_same_state(writer.live, follower.live)
            assert follower.writer.follower.events == 0


def test_a_standby_takes_over_and_a_follower_never_does(run_folder, columns, address):
    with (
        Service.open(run_folder, address) as writer,
        Service.open(run_folder, address) as standby,
        Service.open(run_folder, address, Options(follow=True)) as follower,
    ):
        assert (standby.role, standby.taking) == ("standby", False)
        for other in (standby, follower):
            with pytest.raises(NotWriter, match="another service writes"):
                sent(other, columns, TRAINED, 300)
            with pytest.raises(NotWriter):
                other.snapshot()
        sent(writer, columns, TRAINED, 300)
        writer.close()
        until(lambda: standby.role == "writer")
        again = sent(standby, columns, TRAINED, 320)
        assert (again["accepted"], again["duplicates"]) == (20, 60)
        until(lambda: follower.live.total == 80)
        assert follower.role == "follower"
        assert_same_state(follower.live, standby.live)


def test_the_old_writer_becomes_a_standby_when_its_connection_ends(run_folder, columns, address, cluster):
    """And whoever waits for it is answered, though not with an acknowledgement."""
    with Service.open(run_folder, address) as one, Service.open(run_folder, address) as other:
        sent(one, columns, TRAINED, 300)
        for round in range(4):
            cluster.disconnect(address)
            until(lambda: {one.role, other.role} == {"writer", "standby"} and not (one.reports or other.reports))
            writer = one if one.role == "writer" else other
            begin = 300 + 20 * round
            with contextlib.suppress(StoreLost, NotWriter):
                sent(writer, columns, begin, begin + 20)
            until(lambda: {one.role, other.role} == {"writer", "standby"})
            writer = one if one.role == "writer" else other
            sent(writer, columns, begin, begin + 20)
        until(lambda: one.live.total == other.live.total == 140)
        assert_same_state(one.live, other.live)
        assert_same_state(one.live, replayed(run_folder, columns, 380))


@pytest.mark.slow
def test_questions_go_on_without_the_database_and_say_so(run_folder, columns, cluster):
    address = cluster.database()
    with Service.open(run_folder, address, Options(snapshot_every=10**6)) as service:
        sent(service, columns, TRAINED, 300)
        cluster.kill()
        try:
            until(lambda: answers.health(service)["status"] == "degraded")
            told = answers.health(service)
            assert (told["taking"], told["event"]) == (False, 60)
            assert cluster.password not in json.dumps(told)
            with service.asking() as live:
                live.recommend("person 1", k=3)
        finally:
            cluster.start()
        until(lambda: service.taking, 60)
        assert answers.health(service)["status"] == "ok"
        sent(service, columns, 300, 320)


def test_what_a_replica_says_over_http(run_folder, columns, address):
    limits = Limits(behind=0.3)
    with (
        Service.open(run_folder, address) as writer,
        Service.open(run_folder, address, Options(follow=True), limits=limits) as follower,
    ):
        source, replica = TestClient(create_app(writer)), TestClient(create_app(follower))
        told = source.post("/events", json={"events": as_events(columns, TRAINED, 300)}).json()
        assert told["event"] == 60
        question = {"src": "person 1", "dst": ["person 2", "person 3"]}
        scores = [client.post("/score?min_event=60", json=question).json() for client in (source, replica)]
        assert scores[0] == scores[1]
        assert scores[0]["event"] == 60
        paths = ("/recommend/person 1", "/nodes", "/nodes/person 1", "/explain?src=person 1&dst=person 2", "/status")
        for path in paths:
            found = [client.get(path).json() for client in (source, replica)]
            assert found[0]["event"] == found[1]["event"] == 60, path
            if path != "/status":
                assert found[0] == found[1]
        behind = replica.get("/nodes?min_event=61")
        assert (behind.status_code, behind.json()["error"]) == (503, "behind")
        assert "60, not yet to 61" in behind.json()["message"]
        assert behind.headers["retry-after"] == "1"
        nowhere = source.get("/nodes?min_event=61")  # whoever writes need not wait to know
        assert (nowhere.status_code, "the newest event here is 60" in nowhere.json()["message"]) == (422, True)
        assert replica.get("/nodes?min_event=x").status_code == 422
        assert replica.get(f"/nodes?min_event={10**30}").status_code == 422
        refused = replica.post("/events", json={"events": as_events(columns, 300, 301)})
        assert (refused.status_code, refused.json()["error"]) == (503, "not_writer")
        health = replica.get("/health").json()
        told = [health[name] for name in ("role", "taking", "status", "lag_events")]
        assert told == ["follower", False, "ok", 0]
        assert health["lag_seconds"] < 5
        lines = replica.get("/metrics").text.splitlines()
        assert {"pintgn_event 60.0", "pintgn_lag_events 0.0", "pintgn_writer 0.0"} <= set(lines)
        assert any(line.startswith("pintgn_lag_seconds") for line in lines)
        assert source.get("/health").json()["lag_seconds"] == 0


def test_a_question_waits_for_the_event_that_it_names(run_folder, columns, address):
    import threading

    with (
        Service.open(run_folder, address) as writer,
        Service.open(run_folder, address, Options(follow=True)) as follower,
    ):
        replica, found = TestClient(create_app(follower)), []
        asking = threading.Thread(target=lambda: found.append(replica.get("/nodes?min_event=60").json()["event"]))
        asking.start()
        time.sleep(0.1)
        sent(writer, columns, TRAINED, 300)
        asking.join(20)
        assert found == [60]


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_whatever_is_killed_no_acknowledged_event_is_lost_or_doubled(run_folder, cluster):
    from tests.serve.takeover import survive_takeovers

    harms = ["writer", "connections", "server", "writer"]
    found = survive_takeovers(run_folder, cluster, cluster.database(), harms, writers=3, seed=1)
    assert found["acknowledged"] > 50


# -- what is wrong is said ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "missing", "said"),
    [
        ("UPDATE pintgn_events SET dst = 'nobody' WHERE number = 7", 1, "not what was written, the first is number 7"),
        ("DELETE FROM pintgn_events WHERE number IN (7, 8)", 2, "2 of 60 acknowledged events are missing"),
        ("DELETE FROM pintgn_events WHERE number > 50", 10, "10 of 60 acknowledged events are missing"),
    ],
)
def test_a_store_that_has_lost_events_is_refused_until_that_is_accepted(
    run_folder, columns, address, harm, missing, said
):
    with Service.open(run_folder, address) as service:
        sent(service, columns, TRAINED, 300)
        service.saver.at = service.live.total  # no snapshot, which would have seen them
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(harm)
    for _ in range(2):
        with pytest.raises(BadFile, match=f"{said}.*newest backup of the database.*--accept-loss {missing}"):
            Service.open(run_folder, address)
    with pytest.raises(BadInput, match=f"{missing} events are missing"):
        accept_loss(Run.open(run_folder), address, missing + 1)
    assert accept_loss(Run.open(run_folder), address, missing)["lost"] == missing
    with Service.open(run_folder, address) as service:
        again = sent(service, columns, TRAINED if missing == 10 else 290, 310)  # what was lost last can be sent again
        assert again["accepted"] == (20 if missing == 10 else 10)
        assert sum(len(batch) for _, batch in service.store.read()) == (70 if missing == 10 else 70 - missing)
    with Service.open(run_folder, address) as service:
        assert not service.reports


def test_a_database_that_has_lost_acknowledged_events_is_not_written_to(run_folder, columns, address, cluster):
    """Such as one that was put back from an old backup, or a copy that was behind when it took over."""
    with Service.open(run_folder, address) as service:
        sent(service, columns, TRAINED, 300)
        with psycopg.connect(address, autocommit=True) as db:
            db.execute("DELETE FROM pintgn_events WHERE number > 50")
            db.execute("UPDATE pintgn_log SET total = 50")
        cluster.disconnect(address)
        until(lambda: not service.healthy)
        assert "has lost events that were acknowledged" in answers.health(service)["reports"][-1]
        with pytest.raises(Stopped):
            sent(service, columns, 300, 310)


def test_a_follower_notices_that_the_log_was_rewound(run_folder, columns, address):
    with Service.open(run_folder, address) as service:
        sent(service, columns, TRAINED, 300)
    with Service.open(run_folder, address, Options(follow=True)) as follower:
        assert follower.live.total == 60
        undo_after(Run.open(run_folder), address, columns["t"][280])
        until(lambda: not follower.healthy)
        assert "rewound" in answers.health(follower)["reports"][-1]
    with psycopg.connect(address) as db:
        tables = db.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'pintgn_undone%'").fetchall()
        assert len(tables) == 1


def test_a_follower_that_is_too_far_behind_says_so(address):
    with opened(address) as store, opened(address, follow=True) as follower:
        store.append(batch(range(20)))
        store.drop(10)
        follower.refresh()
        with pytest.raises(StoreGone, match="up to 10 were dropped"):
            list(follower.read(5))
        assert [first for first, _ in follower.read(10)] == [11]


def test_what_only_the_writer_may_do_is_refused_meanwhile(run_folder, columns, address):
    with Service.open(run_folder, address) as service:
        sent(service, columns, TRAINED, 300)
        for option in (["--accept-loss", "0"], ["--undo-after", "2000"]):
            result = CliRunner().invoke(app, ["serve", str(run_folder), "--store", address, *option])
            assert "is in use by pintgn on" in str(result.exception), option


def test_another_format_is_refused(address):
    opened(address).close()
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("UPDATE pintgn_log SET format = 99")
    with pytest.raises(BadFile, match="newer pintgn"):
        opened(address)


def test_two_stores_of_one_database_live_in_schemas(address):
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("CREATE SCHEMA one; CREATE SCHEMA two")
    schema = f"{address}?options=-csearch_path%3D"
    with opened(f"{schema}one") as one, opened(f"{schema}two") as two:
        assert one.writes
        assert two.writes
        one.append(batch(range(3)))
        assert (one.total, two.total) == (3, 0)


def test_a_password_is_never_shown(run_folder, cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    addresses = [
        f"postgresql://ann:hush-{'x' * 10}@127.0.0.1:{cluster.port}/postgres",
        f"postgresql://ann:hush%zz@127.0.0.1:{cluster.port}/postgres",
        "postgresql://ann:hush-hush@127.0.0.1:1/nowhere",
        f"postgres://ann:hush-hush@127.0.0.1:{cluster.port}/nowhere",
    ]
    for address in addresses:
        for command in (["serve", str(run_folder), "--follow"], ["serve", str(run_folder), "--undo-after", "3"]):
            result = CliRunner().invoke(app, [*command, "--store", address])
            assert result.exit_code != 0
            assert "hush" not in result.output + str(result.exception)
            assert "\n" not in str(result.exception)
    result = CliRunner().invoke(app, ["backup", str(run_folder), "-o", "x.tar", "--store", addresses[0]])
    assert "PostgreSQL's own tools" in str(result.exception)
    assert "hush" not in str(result.exception)
    assert list(tmp_path.iterdir()) == [], "nothing is made of an address that is taken for a folder"


def test_keys_of_a_service_with_a_database_are_files_of_the_run(run_folder, columns, tmp_path):
    import shutil

    run = shutil.copytree(run_folder, tmp_path / "run")
    made = CliRunner().invoke(app, ["keys", "add", str(run), "feed", "--store", "postgresql://ann:hush@db/shop"])
    assert made.exit_code == 0
    assert (run / "live" / "keys.json").exists()


def test_followers_need_a_store_that_is_there_and_can_be_shared(run_folder, address, tmp_path):
    with pytest.raises(BadInput, match="there is no store in"):
        Service.open(run_folder, address, Options(follow=True))
    with pytest.raises(BadInput, match="--follow needs a store that processes can share"):
        Service.open(run_folder, tmp_path / "store", Options(follow=True))


def test_a_server_that_does_not_flush_is_reported(run_folder):
    from tests.postgres import Cluster

    with contextlib.closing(Cluster("hush")) as careless, Service.open(run_folder, careless.address()) as service:
        assert "fsync=off" in service.reports[0]
        assert answers.health(service)["status"] == "degraded"


@pytest.mark.parametrize("piece", [1_000, 10**6])
def test_a_snapshot_is_the_same_in_pieces_of_any_size(run_folder, columns, address, monkeypatch, piece):
    monkeypatch.setattr("pintgn.serve.postgres_snapshots.PIECE", piece)
    with Service.open(run_folder, address) as service:
        for end in range(280, 400, 40):
            sent(service, columns, TRAINED, end)
            service.snapshot().result(30)
        assert service.writer.snapshots.numbers() == [120, 80], "the newest, and one to fall back on"
    with psycopg.connect(address, autocommit=True) as db:
        count = db.execute("SELECT count(*) FROM pintgn_snapshots WHERE number = 120").fetchone()[0]
        assert (count > 20) == (piece == 1_000)
    with Service.open(run_folder, address) as service:
        assert (service.replayed, service.reports) == (0, [])
        assert_same_state(service.live, replayed(run_folder, columns, 360))
        service.saver.at = service.live.total
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("DELETE FROM pintgn_snapshots WHERE number = 120 AND path LIKE 'stream%'")
    with Service.open(run_folder, address) as service:
        assert "is not used" in service.reports[0]
        assert service.replayed == 40, "the older snapshot and the events after it do as well"
        assert_same_state(service.live, replayed(run_folder, columns, 360))


def test_a_snapshot_of_a_process_that_no_longer_writes_is_not_kept(run_folder, columns, address):
    with Service.open(run_folder, address) as zombie:
        sent(zombie, columns, TRAINED, 300)
        with psycopg.connect(address, autocommit=True) as db:
            db.execute("UPDATE pintgn_log SET epoch = epoch + 1")
        with pytest.raises(BadFile, match="another process writes"):
            zombie.writer.snapshots.write(zombie.live.snapshot())
        assert zombie.writer.snapshots.numbers() == []
