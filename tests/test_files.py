"""What is written is whole or not there; one process at a time."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from pintgn import files
from pintgn.errors import BadFile
from tests.conftest import ROOT


def test_a_file_that_could_not_be_finished_leaves_the_old_one_and_nothing_else(tmp_path):
    target = tmp_path / "run.json"
    files.write_file(target, "old")
    with pytest.raises(ZeroDivisionError), files.replacing(target) as part:
        part.write_text(f"half {1 // 0}" if part.write_text("half") else "")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_file_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("flushed"))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *pair: (done.append("in place"), replace(*pair)))
    files.write_file(tmp_path / "one", b"1")
    files.write_file(tmp_path / "two", b"2", durable=False)
    files.rename(tmp_path / "two", tmp_path / "one")
    assert done == ["flushed", "in place", "in place", "in place", "flushed"]
    assert (tmp_path / "one").read_bytes() == b"2"


def test_a_secret_is_readable_by_its_owner_only_from_the_first_byte_on(tmp_path):
    files.write_file(tmp_path / "key", "secret", mode=0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_folder_takes_the_place_of_another_as_a_whole(tmp_path):
    for text in ("old", "new"):
        (tmp_path / "made").mkdir()
        (tmp_path / "made" / text).write_text(text)
        files.replace_folder(tmp_path / "made", tmp_path / "stream")
    assert [path.name for path in tmp_path.rglob("*")] == ["stream", "new"]


def test_failures_say_what_to_do(tmp_path):
    with pytest.raises(BadFile, match="folder"), files.replacing(tmp_path):
        pass
    with pytest.raises(BadFile, match="nowhere"):
        files.write_file(tmp_path / "nowhere" / "one", "")
    with (
        pytest.raises(BadFile, match=r"\bit\b.*No space left.*Make room\."),
        files.write_errors("it", "Look.", when_full="Make room."),
    ):
        raise OSError(28, "No space left on device")
    with (
        pytest.raises(BadFile, match=r"\bit\b.*Permission denied.*Look\."),
        files.write_errors("it", "Look.", when_full="Make room."),
    ):
        raise PermissionError(13, "Permission denied")


def test_a_lock_is_held_until_its_file_is_closed(tmp_path):
    with open(tmp_path / "lock", "a+") as one, open(tmp_path / "lock", "a+b") as other:
        assert files.try_lock(one)
        assert not files.try_lock(other)
        one.close()
        assert files.try_lock(other)


def test_nobody_else_renames_or_locks():
    for path in [*Path(ROOT, "src").rglob("*.py"), *Path(ROOT, "paper").rglob("*.py")]:
        if path != Path(ROOT, "src", "pintgn", "files.py"):
            assert not re.search(r"os\.replace|os\.rename\b|fcntl\.flock", path.read_text()), path


def test_a_pipe_is_never_opened_and_files_folders_and_nothing_pass(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link", "", "missing", "file/below"):
        assert files.regular(tmp_path / name) == tmp_path / name
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "to pipe", Path("/dev/zero")):
        with pytest.raises(BadFile, match="pipe") as found:
            files.regular(path)
        assert str(path) in str(found.value)


def test_what_is_made_private_is_its_owners_alone_and_links_lead_nowhere(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "store"
    outside.touch(0o644)
    (folder / "snapshots" / "1").mkdir(parents=True)
    for path in (folder / "events.db", folder / "snapshots" / "1" / "live.json"):
        path.touch(0o644)
    (folder / "link").symlink_to(outside)

    def modes(*paths):
        return [stat.S_IMODE(path.stat().st_mode) for path in paths]

    before = modes(folder / "snapshots", outside)
    files.make_private(folder, deep=False)
    assert modes(folder, folder / "events.db") == [0o700, 0o600]
    assert modes(folder / "snapshots", outside) == before
    files.make_private(folder)
    below = folder / "snapshots"
    assert modes(below, below / "1", below / "1" / "live.json") == [0o700, 0o700, 0o600]
    assert modes(outside) == before[1:]
    files.make_private(folder / "missing")
    assert not (folder / "missing").exists()
