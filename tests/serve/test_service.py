"""The service: acknowledged means durable and observed; restarts change nothing; one event, one time."""

from __future__ import annotations

import shutil
import threading
import time

import numpy as np
import pytest

from pintgn.errors import BadInput, EventOrderError
from pintgn.events.schema import LATEST
from pintgn.serve import answers
from pintgn.serve.event_store import StoreFull
from pintgn.serve.limits import Busy, FarAhead, KeyReused, LateEvent, Limits, Options, Stopped
from pintgn.serve.service import Service
from tests.serve.helpers import TRAINED, all_scores, as_batch, assert_same_state, compacted, happened, replayed, trained


@pytest.fixture
def service(run_folder, tmp_path):
    with Service.open(run_folder, tmp_path / "store", Options(evaluate_every=3)) as made:
        yield made


def send(service, columns, start, stop, keyed=False):
    return service.submit(as_batch(service.live, columns, start, stop, keyed)).result(60)


def fresh(run_folder, columns, stop):
    """A clean replay with the service's own settings."""
    from pintgn.learn.run import Run
    from pintgn.live.live import Live

    live = Live(Run.open(run_folder), evaluate_every=3)
    live.observe_batch(as_batch(live, columns, TRAINED, stop))
    return live


def test_an_acknowledged_event_counts_in_the_next_answer(service, columns):
    before = all_scores(service.live)
    told = send(service, columns, TRAINED, TRAINED + 50)
    counts = {"accepted": 50, "duplicates": 0, "total": TRAINED + 50, "event": 50}
    assert told == counts | {"clock": columns["t"][TRAINED + 49]}
    assert not np.array_equal(all_scores(service.live), before)


@pytest.mark.parametrize("sizes", [(1,), (7, 200), (600,)])
def test_batches_have_no_meaning(service, run_folder, columns, sizes):
    begin, k = TRAINED, 0
    while begin < 400:
        size = sizes[k % len(sizes)]
        send(service, columns, begin, min(begin + size, 400))
        begin, k = begin + size, k + 1
    assert_same_state(service.live, fresh(run_folder, columns, 400))


@pytest.mark.parametrize("model", ["pint", "tgn", "dyrep"])
def test_a_restart_is_as_if_it_had_never_stopped(model, tmp_path):
    columns = happened(700, seed=3, features=True)
    run = trained(tmp_path / "run", columns, model)
    options = Options(snapshot_every=120)
    for begin, end in ((TRAINED, 300), (300, 301), (301, 555), (555, 700)):
        with Service.open(run, tmp_path / "store", options) as service:
            assert service.live.total == begin - TRAINED
            for row in range(begin, end, 40):
                send(service, columns, row, min(row + 40, end))
    with Service.open(run, tmp_path / "store", options) as service:
        assert service.replayed == 0, "a service that was closed properly has nothing to replay"
        assert_same_state(service.live, replayed(run, columns, 700))


def test_without_any_snapshot_everything_is_replayed(run_folder, columns, tmp_path):
    import shutil

    with Service.open(run_folder, tmp_path / "store") as service:
        send(service, columns, TRAINED, 500)
    shutil.rmtree(tmp_path / "store" / "snapshots")
    with Service.open(run_folder, tmp_path / "store") as service:
        assert service.replayed == 500 - TRAINED
        assert_same_state(service.live, replayed(run_folder, columns, 500))


def test_many_clients_at_once_are_committed_together_and_all_answered(service, columns):
    same = [{"src": "person 1", "dst": "person 2", "t": 5_000}]
    batch = service.requests.rows(same * 5)
    futures = []
    threads = [threading.Thread(target=lambda: futures.append(service.submit(batch))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [future.result(30) for future in futures]
    assert sum(one["accepted"] for one in told) == 100
    assert service.store.total == service.live.total == 100


def test_an_answer_during_ingestion_is_that_of_what_had_happened_by_then(service, run_folder, columns, monkeypatch):
    """Readers beside the writer: every answer equals a clean replay of a prefix; none is torn."""
    monkeypatch.setattr("pintgn.live.observing.BLOCK", 40)
    seen, done = {}, threading.Event()
    pairs = [f"person {k}" for k in range(6)] * 2, [f"person {k}" for k in range(6, 12)] * 2

    def read():
        while not done.is_set():
            with service.asking() as live:
                total = service.live.total
                logits = live.score_pairs(*pairs, 9_000).logits
            assert np.array_equal(seen.setdefault(total, logits), logits)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for begin in range(TRAINED, 900, 220):
            send(service, columns, begin, begin + 220)
    finally:
        done.set()
        for reader in readers:
            reader.join(30)
    assert len(seen) > 3
    for total in sorted(seen)[:: max(1, len(seen) // 5)]:
        expected = replayed(run_folder, columns, TRAINED + total).reader().score_pairs(*pairs, 9_000).logits
        assert np.array_equal(seen[total], expected), total


# -- idempotence -------------------------------------------------------------------------------------------------------


def test_an_event_sent_again_under_its_key_counts_once(service, run_folder, columns):
    send(service, columns, TRAINED, 300, keyed=True)
    send(service, columns, 300, 310, keyed=True)
    told = send(service, columns, TRAINED, 330, keyed=True)  # a client that never got its answers
    assert (told["accepted"], told["duplicates"]) == (20, 310 - TRAINED)
    assert_same_state(service.live, fresh(run_folder, columns, 330))


def test_keys_hold_across_restarts(run_folder, columns, tmp_path):
    with Service.open(run_folder, tmp_path / "store") as service:
        send(service, columns, TRAINED, 300, keyed=True)
    with Service.open(run_folder, tmp_path / "store") as service:
        assert send(service, columns, TRAINED, 300, keyed=True)["accepted"] == 0


def test_a_key_twice_in_one_batch_counts_once(service):
    event = {"src": "person 1", "dst": "person 2", "t": 5_000, "key": "a"}
    told = service.submit(service.requests.rows([event, event])).result(30)
    assert (told["accepted"], told["duplicates"]) == (1, 1)


@pytest.mark.parametrize("change", [{"dst": "person 3"}, {"t": 5_001}])
def test_a_key_for_another_event_is_refused_and_nothing_applied(service, change):
    event = {"src": "person 1", "dst": "person 2", "t": 5_000, "key": "a"}
    other = {"src": "person 4", "dst": "person 2", "t": 5_000, "key": "b"}
    service.submit(service.requests.rows([event])).result(30)
    with pytest.raises(KeyReused, match="'a'"):
        service.submit(service.requests.rows([other, event | change])).result(30)
    assert service.live.total == service.store.total == 1


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_late_event_is_named_and_nothing_of_its_batch_applied(service, columns):
    send(service, columns, TRAINED, 400)
    clock = columns["t"][399]
    rows = [{"src": "person 1", "dst": "person 2", "t": clock - 1}, {"src": "person 1", "dst": "person 3", "t": clock}]
    with pytest.raises(LateEvent, match="event 0 .*Nothing of this batch"):
        service.submit(service.requests.rows(rows)).result(30)
    assert isinstance(LateEvent("x"), EventOrderError)
    assert service.store.total == 400 - TRAINED


def test_a_late_event_between_duplicates_is_named_by_its_own_place(service):
    requests = service.requests
    known = [{"src": "person 1", "dst": "person 2", "t": t, "key": str(t)} for t in (5_000, 5_001, 5_009)]
    service.submit(requests.rows(known)).result(30)
    late = {"src": "person 1", "dst": "person 2", "t": 5_002, "key": "late"}
    with pytest.raises(LateEvent, match="event 2 "):
        service.submit(requests.rows([*known[:2], late, known[2]])).result(30)


def test_an_event_far_after_the_clock_is_named_and_nothing_of_its_batch_applied(service, columns):
    """Milliseconds sent as seconds; each event moves the clock for the next, so batches have no meaning here either."""
    log = service.run.log
    span, clock, requests = int(log.t[-1] - log.t[0]), service.live.clock, service.requests
    assert service.writer.max_ahead == 100 * span

    def rows(*times):
        return requests.rows([{"src": "person 1", "dst": "person 2", "t": t} for t in times])

    for times, row in (((clock + 100 * span + 1,), 0), ((clock, clock + 5, 1_000 * clock), 2)):
        with pytest.raises(FarAhead, match=rf"event {row} .* --max-ahead|event {row} .*Nothing of this batch"):
            service.submit(rows(*times)).result(30)
    assert service.store.total == 0
    edge = clock + 100 * span
    assert service.submit(rows(edge, edge + 100 * span, edge + 200 * span)).result(30)["accepted"] == 3


@pytest.mark.parametrize(("limit", "taken"), [(9.5, 9), (10, 10), (float("inf"), 10**15)])
def test_how_far_ahead_an_event_may_be_can_be_set(run_folder, tmp_path, limit, taken):
    with Service.open(run_folder, tmp_path / "store", Options(max_ahead=limit)) as service:
        for far in (taken + 1, taken):
            batch = service.requests.rows([{"src": "person 1", "dst": "a", "t": service.live.clock + far}])
            if far > limit:
                with pytest.raises(FarAhead):
                    service.submit(batch).result(30)
            else:
                assert service.submit(batch).result(30)["accepted"] == 1


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_senseless_limit_is_refused(run_folder, tmp_path, limit):
    with pytest.raises(BadInput, match="more than 0"):
        Service.open(run_folder, tmp_path / "store", Options(max_ahead=limit))


@pytest.mark.parametrize("decimal", [False, True])
def test_after_the_latest_time_that_is_taken_everything_still_works(tmp_path, decimal):
    """No event bricks a store: there is always a time after the newest event that can be asked about."""
    columns = happened()
    if decimal:
        columns["t"] = [t + 0.5 for t in columns["t"]]
    run = trained(tmp_path / "run", columns)
    options = Options(max_ahead=float("inf"))
    with Service.open(run, tmp_path / "store", options) as service:
        requests = service.requests
        for t in (LATEST + 1024, 2**62, -LATEST - 1024):
            with pytest.raises(BadInput, match=r"within ±3.46e\+18"):
                service.observe([{"src": "person 1", "dst": "person 2", "t": t}])
        service.observe([{"src": "person 1", "dst": "person 2", "t": LATEST}])
        service.observe([{"src": "person 1", "dst": "person 3", "t": LATEST}])
    with Service.open(run, tmp_path / "store", options) as service:
        assert service.live.total == 2
        with service.asking() as live:
            assert live.recommend("person 1", k=2)
            assert np.isfinite(list(live.score("person 1", ["person 2"]).values())).all()
            live.score("person 1", ["person 2"], at=2**62)
            with pytest.raises(BadInput, match=r"within ±4.61e\+18"):
                live.score("person 1", ["person 2"], at=2**62 + 1024)
        assert requests.rows([{"src": "person 1", "dst": "person 3", "t": LATEST}]) is not None


def test_events_at_the_clock_belong_to_its_open_group(service):
    requests = service.requests
    for _ in range(3):
        service.submit(requests.rows([{"src": "person 1", "dst": "person 2", "t": 7_000}])).result(30)
    live = service.live.reader()
    at_clock = live.score_pairs(["person 1"], ["person 2"], 7_000).logits
    service.submit(requests.rows([{"src": "person 1", "dst": "person 2", "t": 7_000}])).result(30)
    assert np.array_equal(service.live.reader().score_pairs(["person 1"], ["person 2"], 7_000).logits, at_clock)


# -- limits and failures -----------------------------------------------------------------------------------------------


def test_a_full_queue_refuses(run_folder, tmp_path):
    with Service.open(run_folder, tmp_path / "store", limits=Limits(waiting=10)) as service:
        rows = [{"src": "person 1", "dst": "person 2", "t": 5_000}] * 8
        batch = service.requests.rows(rows)
        with service.writer.state.lock.reading:  # the writer cannot observe meanwhile
            first = service.submit(batch)
            with pytest.raises(Busy, match="8 events are waiting"):
                service.submit(batch)
        assert first.result(30)["accepted"] == 8
        assert service.submit(batch).result(30)["accepted"] == 8


def test_when_the_disk_is_full_nothing_is_kept_and_the_service_goes_on(service, run_folder, columns, monkeypatch):
    send(service, columns, TRAINED, 300)
    room = service.store.db.execute("PRAGMA page_count").fetchone()[0]
    service.store.db.execute(f"PRAGMA max_page_count = {room}")
    with pytest.raises(StoreFull, match="Nothing of them was kept"):
        send(service, columns, 300, 900)
    told = answers.health(service)
    assert (told["status"], told["taking"]) == ("degraded", False), "it says so while writes are refused"
    assert "could not be written" in told["reports"][0]
    assert "pintgn_healthy 0" in answers.metrics(service)
    assert service.live.total == service.store.total == 300 - TRAINED
    service.store.db.execute("PRAGMA max_page_count = 1000000")
    send(service, columns, 300, 900)
    assert answers.health(service)["status"] == "ok"
    assert_same_state(service.live, fresh(run_folder, columns, 900))


def deleted(folder):
    shutil.rmtree(folder)


def moved(folder):
    folder.rename(folder.with_name("elsewhere"))


def without_database(folder):
    (folder / "events.db").unlink()


def without_log(folder):
    (folder / "events.db-wal").unlink()


def without_mark(folder):
    (folder / "high-water").unlink()


def put_back_older(folder):
    shutil.copyfile(folder / "events.db", folder / "copy")
    (folder / "copy").replace(folder / "events.db")


@pytest.mark.parametrize("harm", [deleted, moved, without_database, without_log, without_mark, put_back_older])
def test_nothing_is_acknowledged_into_files_that_are_gone(run_folder, columns, tmp_path, harm, caplog):
    with Service.open(run_folder, tmp_path / "store") as service:
        send(service, columns, TRAINED, 300)
        harm(tmp_path / "store")
        with pytest.raises(Stopped, match="deleted, moved or replaced"):
            send(service, columns, 300, 310)
        told = answers.health(service)
        assert told["status"] == "failed"
        assert "deleted, moved or replaced" in told["reports"][-1]
    assert "Traceback" not in caplog.text
    assert harm is not deleted or not (tmp_path / "store").exists(), "nothing is made in its place"


def test_a_writer_that_fails_leaves_nobody_waiting(service, columns, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(service.live, "observe_batch", broken)
    with pytest.raises(Stopped, match="Restart"):
        send(service, columns, TRAINED, 300)
    assert not service.healthy
    with pytest.raises(Stopped):
        send(service, columns, 300, 310)


def test_events_that_were_stored_but_not_observed_are_observed_after_a_restart(run_folder, columns, tmp_path, caplog):
    with Service.open(run_folder, tmp_path / "store") as service:
        service.live.observe_batch = lambda *_: 1 / 0
        with pytest.raises(Stopped):
            send(service, columns, TRAINED, 300)
    with Service.open(run_folder, tmp_path / "store") as service:
        assert_same_state(service.live, replayed(run_folder, columns, 300))


def test_a_client_that_goes_away_does_not_stop_the_writer(service, columns):
    with service.writer.state.lock.reading:
        answer = service.submit(as_batch(service.live, columns, TRAINED, 300))
        assert not answer.cancel(), "what was accepted happens"
    assert answer.result(30)["accepted"] == 60
    assert send(service, columns, 300, 310)["accepted"] == 10


def test_a_run_that_was_trained_on_does_not_use_snapshots_of_its_old_weights(columns, tmp_path):
    folder = trained(tmp_path / "run", columns)
    with Service.open(folder) as service:
        send(service, columns, TRAINED, 300)
    from pintgn.learn.run import Run

    run = Run.open(folder)
    for parameter in run.model.parameters():
        parameter.data += 0.5
    changed = Service(run, folder / "live")
    try:
        assert changed.replayed == 60
        assert "other weights" in changed.reports[0]
    finally:
        changed.close()


def test_a_closed_service_refuses(run_folder, columns, tmp_path):
    with Service.open(run_folder, tmp_path / "store") as service:
        batch = as_batch(service.live, columns, TRAINED, 300)
    with pytest.raises(Stopped, match="going down"):
        service.submit(batch)


def test_two_services_on_one_store_the_second_refuses(service, run_folder, tmp_path):
    with pytest.raises(BadInput, match="in use by process"):
        Service.open(run_folder, tmp_path / "store")


def eventually(true, seconds=20.0):
    """Wait for what another thread is about to do."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.005)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def test_snapshots_are_written_every_so_many_events_and_old_ones_go(run_folder, columns, tmp_path):
    with Service.open(run_folder, tmp_path / "store", Options(snapshot_every=50)) as service:
        for row in range(TRAINED, TRAINED + 300, 50):
            send(service, columns, row, row + 50)
            eventually(lambda row=row: service.writer.snapshots.numbers()[:1] == [row + 50 - TRAINED])
        eventually(lambda: service.writer.snapshots.numbers() == [300, 250])
        told = service.snapshot().result(30)
        assert told["events"] == 300
        assert told["bytes"] > 1_000


def test_a_snapshot_that_cannot_be_written_is_told_and_survived(service, columns, monkeypatch):
    from pintgn.errors import BadFile

    send(service, columns, TRAINED, 300)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pintgn.live.snapshot.Snapshot.write", full)
    with pytest.raises(BadFile, match="No space left"):
        service.snapshot().result(30)
    assert list((service.store.folder / "snapshots").glob("*")) == []
    assert send(service, columns, 300, 320)["accepted"] == 20


def test_a_compacted_store_starts_from_its_snapshot_and_goes_on(run_folder, columns, tmp_path):
    with Service.open(run_folder, tmp_path / "store") as service:
        send(service, columns, TRAINED, 600)
        assert compacted(service) == 600 - TRAINED
        send(service, columns, 600, 650)
    with Service.open(run_folder, tmp_path / "store") as service:
        send(service, columns, 650, 700)
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_keys_are_remembered_when_their_events_are_dropped(run_folder, columns, tmp_path):
    late = columns["t"][649]
    more = [{"src": "person 1", "dst": "person 2", "t": late, "key": "at the clock"}]
    with Service.open(run_folder, tmp_path / "store") as service:
        send(service, columns, TRAINED, 650, keyed=True)
        service.observe(more)
        compacted(service)
        assert service.store.dropped == service.store.total
        assert service.observe(more)["duplicates"] == 1, "it would be taken: it is not late"
        with pytest.raises(KeyReused):
            service.observe([more[0] | {"dst": "person 3"}])
    with Service.open(run_folder, tmp_path / "store") as service:
        assert send(service, columns, TRAINED, 660, keyed=True)["duplicates"] == 650 - TRAINED
    options = Options(snapshot_every=20, keep_events=0)
    with Service.open(run_folder, tmp_path / "other", options) as service:
        for row in range(TRAINED, 400, 20):
            send(service, columns, row, row + 20, keyed=True)
            eventually(lambda row=row: service.writer.snapshots.numbers()[:1] == [row + 20 - TRAINED])
        eventually(lambda: service.store.dropped > 0)
        assert send(service, columns, TRAINED, 400, keyed=True)["accepted"] == 0


def test_a_store_keeps_to_its_size(run_folder, columns, tmp_path):
    options = Options(snapshot_every=40, keep_events=80)
    with Service.open(run_folder, tmp_path / "store", options) as service:
        for row in range(TRAINED, 900, 20):
            send(service, columns, row, row + 20)
            if (row + 20 - TRAINED) % 40 == 0:
                eventually(lambda row=row: service.writer.snapshots.numbers()[:1] == [row + 20 - TRAINED])
        eventually(lambda: service.store.total - service.store.dropped <= 80 + 20)
        held = service.store.db.execute("SELECT count(*) FROM events").fetchone()[0]
        assert held == service.store.total - service.store.dropped >= 80
    with Service.open(run_folder, tmp_path / "store", options) as service:
        assert_same_state(service.live, replayed(run_folder, columns, 900))
