"""What stands beside a store, events that wait and which run is served: damage is told, and can be made good."""

from __future__ import annotations

import os
import shutil

import pytest
from typer.testing import CliRunner

from pintgn.cli.app import app
from pintgn.errors import BadFile
from pintgn.serve.backup import back_up
from pintgn.serve.limits import Options
from pintgn.serve.service import Service
from pintgn.serve.waiting import WaitingFile, mark_of
from tests.serve import hardship_waiting as hardship
from tests.serve.hardship import OPTIONS

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")


@pytest.fixture(scope="module")
def killed(run_folder, columns, tmp_path_factory):
    """What a killed service leaves while events wait for their turn and for their places; and what it acknowledged."""
    folder = tmp_path_factory.mktemp("waiting") / "killed"
    return folder, hardship.waiting(run_folder, columns, folder)


@pytest.mark.parametrize(
    ("file", "harm"),
    [(file, harm) for file in hardship.FILES for harm in ("flipped", "deleted")]
    + [("held", "cut"), ("held's log", "zeroed"), ("late's log", "cut"), ("models", "zeroed")],
)
def test_nothing_that_waits_is_lost_silently(run_folder, tmp_path, killed, file, harm):
    folder = shutil.copytree(killed[0], tmp_path / "store")
    assert hardship.harm(folder, file, harm, 0)
    hardship.survive_damaged_waiting(run_folder, folder, killed[1])


def test_a_loss_of_events_that_wait_is_accepted_from_the_command_line(run_folder, tmp_path, killed):
    folder = shutil.copytree(killed[0], tmp_path / "store")
    (folder / "held.db-wal").unlink()
    with pytest.raises(BadFile, match=r"held.db is damaged: .*--accept-loss"):
        Service.open(run_folder, folder)
    with pytest.raises(BadFile, match=r"held.db is damaged"):
        back_up(run_folder, folder, tmp_path / "backup.tar")
    command = ["serve", str(run_folder), "--store", str(folder), "--accept-loss"]
    said = CliRunner().invoke(app, command).stdout
    assert "0 events that wait in held.db were intact; the damaged file is kept as damaged-" in said
    assert "nothing is missing" in CliRunner().invoke(app, command).stdout
    Service.open(run_folder, folder, Options(**OPTIONS)).close()


def test_what_has_left_is_not_missed(tmp_path):
    path = tmp_path / "held.db"
    row = (1, "a", "b", 5, None, None, "key", 0)
    for _ in range(2):  # the second time after the file, which was empty, is gone
        rows = WaitingFile(path, "log")
        number = rows.arrived + 1
        rows.change([], [(number, *row[1:])])
        rows.change([number], [])
        rows.close()
        path.unlink()
    assert mark_of(path).exists()
    rows = WaitingFile(path, "log")
    assert (rows.arrived, rows.left) == (2, 2)
    rows.close()


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("limit", [8_192, 120_000, 250_000])
def test_a_full_disk_refuses_and_loses_nothing_while_events_wait(run_folder, columns, tmp_path, limit):
    hardship.survive_full_waiting(run_folder, columns, tmp_path / "store", limit)
