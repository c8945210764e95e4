"""Several processes as torchrun starts them, running a function of these tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conftest import ROOT


def environment(rank: int, count: int, meet: str) -> dict[str, str]:
    own = {"RANK": f"{rank}", "WORLD_SIZE": f"{count}", "PINTGN_MEET": meet, "OMP_NUM_THREADS": "1"}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return os.environ | own | {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": paths}


def no_worker() -> dict[str, str]:
    """The environment of a process that is no worker, and runs these sources."""
    given = environment(0, 1, "")
    return {name: value for name, value in given.items() if name not in ("RANK", "WORLD_SIZE", "PINTGN_MEET")}


def children(pid: int) -> dict[int, int]:
    """The workers that a process has started: process ids by rank."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ranks = [re.search(r"\0RANK=(\d+)", "\0" + Path(f"/proc/{one}/environ").read_text()) for one in found]
    return {int(rank[1]): int(one) for one, rank in zip(found, ranks, strict=True) if rank}


def run_together(function: str, count: int, *arguments: Any) -> list[subprocess.CompletedProcess]:
    """What each of so many workers says that run `module:function` with these arguments; all within two minutes."""
    module, _, name = function.partition(":")
    code = f"import json, sys; from {module} import {name}; {name}(*json.loads(sys.argv[1]))"
    command = [sys.executable, "-c", code, json.dumps(arguments)]
    with tempfile.TemporaryDirectory() as folder:
        meet = (Path(folder) / "meet").as_uri()
        workers = [
            subprocess.Popen(command, env=environment(rank, count, meet), stdout=-1, stderr=-1, text=True)
            for rank in range(count)
        ]
        try:
            outputs = [worker.communicate(timeout=120) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    return [
        subprocess.CompletedProcess(command, worker.returncode, *output)
        for worker, output in zip(workers, outputs, strict=True)
    ]
