"""A run's folder with a wrong or missing field in any of its files ends in one clear line, never in a traceback."""

from __future__ import annotations

import json
import shutil
import zlib

import numpy as np
import pytest

import pintgn
from pintgn import PINT
from pintgn.errors import BadFile, PintgnError
from pintgn.live.predict import predict
from tests.learn.helpers import QUICK, random_log

OTHERS = [None, "x", -1, 2**70, 1.5, [], {}]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage") / "run"
    pintgn.fit(PINT(dim=8, neighbors=4, positions=2, memory=4), random_log(200), folder=folder, **QUICK)
    return folder


def use(folder):
    """Open a run and ask it something."""
    return predict(pintgn.open(folder), {"src": [1, 2], "dst": [3, 4]}).to_pylist()


def refusal(folder) -> str | None:
    """The one line that a run is refused with, if it is."""
    try:
        use(folder)
    except PintgnError as error:
        return str(error)
    return None


def fields(value, at=()):
    """Every field of nested objects, by its way from the top."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield (*at, key)
        yield from fields(inner, (*at, key))


def with_field(value, at, other):
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    if other is fields:
        del inner[at[-1]]
    else:
        inner[at[-1]] = other
    return copy


@pytest.mark.parametrize("name", ["run.json", "result.json", "stream/stream.json"])
def test_no_field_can_be_wrong_without_a_clear_line(made, name):
    path = made / name
    good = path.read_text()
    whole, refused = json.loads(good), 0
    try:
        for at in fields(whole):
            if name == "stream/stream.json" and at[0] == "settings" and len(at) > 1:
                continue  # of the model; one of them stands for all
            drawn = zlib.crc32(repr(at).encode())
            for other in (fields, OTHERS[drawn % len(OTHERS)], OTHERS[len(at[-1]) % len(OTHERS)]):
                path.write_text(json.dumps(with_field(whole, at, other)))
                said = refusal(made)
                assert "\n" not in (said or ""), at
                refused += said is not None
    finally:
        path.write_text(good)
    assert refused > len(whole)
    use(made)


def test_a_run_that_is_to_go_on_misses_no_field_without_a_clear_line(tmp_path):
    log, folder = random_log(200), tmp_path / "run"
    pintgn.fit("heuristic", log, folder=folder)
    good = json.loads((folder / "run.json").read_text())
    for left_out in ("seed", "fingerprint", "asked", "data"):
        (folder / "run.json").write_text(json.dumps({key: good[key] for key in good if key != left_out}))
        with pytest.raises(BadFile, match=f"run.json is damaged: it has no '{left_out}'"):
            pintgn.fit("heuristic", log, folder=folder, resume=True)


@pytest.mark.parametrize("name", ["run.json", "result.json", "stream/stream.json", "settings.toml"])
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0", "\ufeff{}", "{" * 9_000])
def test_what_is_no_object_at_all_is_refused(made, name, text):
    good = (made / name).read_text()
    try:
        (made / name).write_text(text)
        with pytest.raises(PintgnError) as error:
            use(made)
        assert "\n" not in str(error.value)
    finally:
        (made / name).write_text(good)


@pytest.mark.parametrize("name", ["stream/stream.npz", "stream/neighbors.npz", "stream/positions.npz"])
def test_a_missing_array_is_refused(made, name):
    path = made / name
    good = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    try:
        for left_out in arrays:
            np.savez(path, **{key: value for key, value in arrays.items() if key != left_out})
            assert "\n" not in (refusal(made) or ""), left_out
        path.unlink()
        with pytest.raises(BadFile):
            use(made)
    finally:
        path.write_bytes(good)
    use(made)


def test_files_of_two_streams_do_not_belong_together(made, tmp_path):
    other = tmp_path / "other"
    pintgn.fit(PINT(dim=8, neighbors=4, positions=2, memory=4), random_log(260, seed=1), folder=other, **QUICK)
    for name in ("neighbors.npz", "stream.npz", "stream.json"):
        copy = tmp_path / name
        shutil.copytree(made, copy)
        shutil.copyfile(other / "stream" / name, copy / "stream" / name)
        with pytest.raises(PintgnError) as error:
            use(copy)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["best.safetensors", "stream/model.safetensors"])
def test_a_flipped_bit_in_the_weights_is_found(made, name):
    path = made / name
    good = path.read_bytes()
    try:
        for back in (1, 7, 100, 1_000):
            bad = bytearray(good)
            bad[-back] ^= 16
            path.write_bytes(bad)
            with pytest.raises(BadFile, match="is damaged"):
                use(made)
    finally:
        path.write_bytes(good)
    use(made)
