"""The command line in a fork of this process: no time is lost with starting Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from pintgn.cli.app import main


def pintgn(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Exit code and output of `pintgn …`."""
    words = ["pintgn", *map(str, arguments)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as noise:
        pid = os.fork()
        if pid == 0:
            _child(words, cwd, out.fileno(), noise.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        noise.seek(0)
        return subprocess.CompletedProcess(words, code, out.read().decode(), noise.read().decode())


def _child(words: list[str], cwd: Path | None, out: int, noise: int) -> None:
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(noise, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        sys.argv = words
        os.chdir(cwd or os.getcwd())
        warnings.simplefilter("ignore")  # of others, as it is outside of tests
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
