"""The same hard times for what stands beside a store: events that wait (`held.db`, `late.db`), and which run is served
(`models.json`)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from tests.serve.hardship import OPTIONS, taken_until_full
from tests.serve.helpers import TRAINED, as_events, assert_same_state

LATENESS = 8
FILES = {
    "held": "held.db", "held's log": "held.db-wal", "held's mark": "held-high-water",
    "late": "late.db", "late's log": "late.db-wal", "late's mark": "late-high-water", "models": "models.json",
}  # fmt: skip
BATCH = 20


def out_of_order(columns: dict, stop: int = 900, seed: int = 0) -> list[dict]:
    """Events with keys, as they arrive: most in order of time, some a little late, some long after."""
    rng, events = random.Random(seed), as_events(columns, TRAINED, stop, keyed=True)
    delay = [rng.choice([0] * 8 + [10, 100]) for _ in events]
    order = sorted(range(len(events)), key=lambda k: (k + delay[k], k))
    return [events[k] for k in order]


def batches(events: list[dict]) -> list[list[dict]]:
    found = [events[begin : begin + BATCH] for begin in range(0, len(events), BATCH)]
    return [sorted(some, key=lambda event: event["t"]) for some in found]


def check_all(run: Path, folder: Path, sent: list[dict], options: Any = None) -> None:
    """Exactly these events are stored, once, in order of time; the state is that of a clean replay of the store."""
    from pintgn.learn.run import Run
    from pintgn.live.live import Live
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service

    with Service.open(run, folder, options or Options(too_late="rewind", **OPTIONS)) as service:
        service.unnumbered.settle()
        assert not service.reports, service.reports
        stored = service.call(lambda: [batch for _, batch in service.store.read()]).result()
        times = [t for batch in stored for t in batch.t.tolist()]
        keys = [key for batch in stored for key in batch.keys]
        assert times == sorted(times)
        assert len(keys) == len(set(keys)), "an event is doubled"
        assert set(keys) == {event["key"] for event in sent}, "an event is lost, or one that was refused was kept"
        clean = Live(Run.open(run), evaluate_every=OPTIONS["evaluate_every"])
        for batch in stored:
            clean.observe_batch(batch)
        assert_same_state(service.live, clean)


# -- damage ------------------------------------------------------------------------------------------------------------


def waiting(run: Path, columns: dict, folder: Path) -> list[dict]:
    """A store as a killed process leaves it while events wait for their turn and for their places, and a run was
    promoted; returns what it acknowledged."""
    from pintgn.serve import late
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service

    sent, gather = out_of_order(columns, 600), late.GATHER
    late.GATHER = 3600.0  # they wait
    try:
        alive = folder.with_name(f"{folder.name}-alive")
        options = Options(lateness=LATENESS, too_late="rewind", **OPTIONS)
        with Service.open(run, alive, options) as service:
            own = {"run": str(run.absolute()), "covered": 0, "log": service.store.log}
            service.models.active = own
            service.models.save()
            for some in batches(sent):
                told = service.submit(service.requests.rows(some)).result(60)
            assert told["held"]
            assert told["late"]
            service.saver.join()
            shutil.copytree(alive, folder)
        shutil.rmtree(alive)
    finally:
        late.GATHER = gather
    return sent


def harm(folder: Path, file: str, how: str, seed: int) -> bool:
    """As `hardship.damage`, for these files."""
    from tests.serve.hardship import harm_file

    return harm_file(folder / FILES[file], how, f"{file} {how} {seed}")


def survive_damaged_waiting(run: Path, folder: Path, sent: list[dict]) -> int:
    """Start a store beside which a file is damaged: nothing is missing, or it is told in one line, and what the line
    says helps. Returns how many events had to be sent again."""
    from pintgn.errors import BadFile
    from pintgn.serve.limits import Options
    from pintgn.serve.rewind import accept_lost
    from pintgn.serve.service import Service

    try:
        check_all(run, folder, sent)
        return 0
    except BadFile as error:
        told = str(error)
    assert "\n" not in told
    assert any(name in told for name in FILES.values()), told
    try:
        Service.open(run, folder, Options(**OPTIONS)).close()
        raise AssertionError("what was missing is forgotten by a restart")
    except BadFile:
        pass
    if "models.json" in told:
        (folder / "models.json").unlink()
        check_all(run, folder, sent)
        return 0
    assert accept_lost(run, folder, lambda line: None)
    again = 0
    with Service.open(run, folder, Options(too_late="rewind", **OPTIONS)) as service:
        for some in batches(sent):
            again += service.submit(service.requests.rows(some)).result(60)["accepted"]
    check_all(run, folder, sent)
    return again


# -- a full disk -------------------------------------------------------------------------------------------------------


def survive_full_waiting(run: Path, columns: dict, folder: Path, limit: int) -> int:
    """As `hardship.survive_full`, while events wait and come late; returns how many it acknowledged."""
    sent = batches(out_of_order(columns))
    done = taken_until_full(run, folder, OPTIONS | {"lateness": LATENESS, "too_late": "rewind"}, limit, sent)
    acknowledged = [event for some in sent[:done] for event in some]
    check_all(run, folder, acknowledged)
    return len(acknowledged)
