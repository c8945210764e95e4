"""Training by itself (`--retrain`): when it is time, train beside the service, compare, promote.

The writer alone does it. The training is a process of its own, with less priority, within a budget of time and memory;
what it trained is a candidate like any other (`models`). What came of it is in the history of models, also when it
failed; the service goes on as it was. The runs are in `retrained` beside the store: those that are served, or were
before, are kept.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pintgn.errors import BadInput, PintgnError
from pintgn.formatting import duration, size
from pintgn.live.prequential import ENOUGH
from pintgn.positions.capacity import available
from pintgn.serve.limits import NotWriter, Stopped
from pintgn.serve.models import promote
from pintgn.serve.store import StoreLost

if TYPE_CHECKING:
    from pintgn.serve.service import Service

log = logging.getLogger("pintgn.serve")
CHOICES = ("daily", "drift")
FOLDER = "retrained"
DAY = 86_400.0
PAUSE = 3_600.0
"""Seconds from one training for drift to the next."""
LOOK = 5.0
"""Seconds between two looks whether it is time."""
POLL = 0.2
"""Seconds between two looks at a training, or at a candidate."""
NEW = ENOUGH
"""Events since the last training, at least."""


class Abandoned(Exception):
    """The service ends, or writes no more."""


class Retrainer(threading.Thread):
    """Of one service."""

    def __init__(self, service: Service):
        super().__init__(name="pintgn-retrainer", daemon=True)
        options = service.options
        if options.retrain not in CHOICES:
            raise BadInput(f"--retrain {options.retrain}; it is daily or drift.")
        if not service.run.scores_links:
            raise BadInput("--retrain compares how runs score links, and this one scores none. Leave it out.")
        if not options.evaluate_every or options.keep_events is not None:
            other = "--evaluate-every 0" if not options.evaluate_every else "--keep-events"
            why = "compares on events that are scored" if not options.evaluate_every else "needs every event"
            raise BadInput(f"--retrain {why}; it does not go with {other}.")
        if service.home is None or service.run.folder is None:
            raise BadInput("--retrain needs a run in a folder, to go on from it. Save the run first.")
        if not options.retrain_time > 0 or (options.retrain_memory is not None and options.retrain_memory <= 0):
            raise BadInput("--retrain-time and --retrain-memory are more than 0.")
        self.service, self.when = service, options.retrain
        self.folder = service.home / FOLDER
        self.now: dict[str, Any] | None = None  # the training under way
        self._ending = threading.Event()
        self._before = (0.0, 0)  # when the newest training of this process ended, and how many events there were

    def run(self) -> None:
        try:
            while not self._ending.wait(LOOK):
                if self.service.store.writes and self.service.taking:
                    self.sweep()
                    if (why := self.due()) is not None:
                        self.retrain(why)
        except Exception:
            log.exception("nothing is trained any more")

    def stop(self) -> None:
        """End it, and the training under way."""
        self._ending.set()
        if self.is_alive():
            self.join()

    # -- when ----------------------------------------------------------------------------------------------------------

    def due(self) -> str | None:
        """Why to train now; None when it is not time."""
        service = self.service
        if service.candidate is not None and service.candidate.busy:
            return None
        assert service.run.folder is not None
        mine = [entry for entry in service.models.entries if entry.get("why") and not entry.get("given_up")]
        last, events = max([self._before, *((entry["ended"], entry["events"]) for entry in mine)])
        trained = (service.run.folder.path / "run.json").stat().st_mtime
        if service.live.total - max(events, service.covered) < NEW:
            return None
        if self.when == "daily":
            return "daily" if time.time() - max(last, trained) >= DAY else None
        with service.lock.reading:
            drift = service.live.prequential.drift
        return "drift" if drift and time.time() - last >= PAUSE else None

    # -- what ----------------------------------------------------------------------------------------------------------

    def retrain(self, why: str) -> None:
        """Train, and have the run compared and promoted, unless it is worse."""
        began, service = time.time(), self.service
        folder, total = self.folder / time.strftime("%Y%m%d-%H%M%S"), service.live.total
        self.now = {"why": why, "run": str(folder), "state": "training", "began": round(began, 3), "events": total}
        log.info("training %s (%s), after event %d", folder, why, total)
        try:
            self._train(folder)
            self.now["state"] = "compared"
            candidate = promote(service, folder, why=why)
            while candidate.busy:
                self._wait()
        except (Abandoned, Stopped, NotWriter, StoreLost):
            pass  # the next start, or the next writer, begins anew
        except (PintgnError, OSError) as error:
            self._failed(str(error), total)
        finally:
            if not self._ending.is_set():
                self._before = (time.time(), total)
            self.now = None
            self.sweep()

    def _failed(self, said: str, total: int) -> None:
        assert self.now is not None
        log.error("nothing was trained: %s", said)
        models = self.service.models
        told = {"state": "failed", "said": said, "ended": round(time.time(), 3), "events": total, "scored": 0}
        models.entries.append(self.now | told)
        try:
            models.save()
        except PintgnError as error:
            log.error("%s", error)

    def _wait(self) -> None:
        if self._ending.wait(POLL) or not self.service.store.writes or not self.service.healthy:
            raise Abandoned

    def _train(self, folder: Path) -> None:
        """In a process of its own, which is ended when it takes too much, and ends when this one does."""
        service = self.service
        if service.call(lambda: service.store.dropped).result() > service.covered:
            raise BadInput("the first live events were dropped from the store, so there is no whole log to train on.")
        assert service.run.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        job: dict[str, Any] = {
            "run": str(service.run.folder.path.absolute()),
            "store": str(service.where),
            "folder": str(folder),
        }
        job |= {"log": service.store.log, "covered": service.covered}
        limit = service.options.retrain_memory or int(available() / 2)
        end = time.monotonic() + service.options.retrain_time
        with tempfile.TemporaryFile() as said:
            command = [sys.executable, "-m", "pintgn.serve.retraining"]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said)
            try:
                assert child.stdin is not None
                child.stdin.write(json.dumps(job).encode() + b"\n")  # the rest is silence, until this process ends
                child.stdin.flush()
                while child.poll() is None:
                    self._wait()
                    if time.monotonic() > end:
                        raise BadInput(
                            f"it took longer than {duration(service.options.retrain_time)} (--retrain-time)."
                        )
                    if (taken := memory_of(child.pid)) > limit:
                        raise BadInput(f"it took {size(taken)}, more than {size(limit)} (--retrain-memory).")
            finally:
                child.kill()
                child.wait()
                child.stdin.close()  # type: ignore[union-attr]
            if child.returncode != 0:
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().splitlines()
                raise BadInput(lines[-1][:500] if lines else f"the training ended with {child.returncode}.")

    # ------------------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Remove the runs that are not served, were not before, and are not on their way."""
        service, models = self.service, self.service.models
        kept = {one["run"] for one in (models.active, models.before, self.now) if one is not None}
        if service.run.folder is not None:
            kept.add(str(service.run.folder.path.absolute()))
        if service.candidate is not None and service.candidate.busy:
            kept.add(str(service.candidate.path))
        for path in sorted(self.folder.glob("*")):
            if str(path.absolute()) not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def facts(self) -> dict[str, Any]:
        return {"when": self.when, "now": self.now}


def memory_of(pid: int) -> int:
    """Bytes that a process holds; 0 where that cannot be told."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
