"""Files of our own have a declared shape; one that has another is refused in one line that names the field."""

from __future__ import annotations

import contextlib
import io
import zipfile

import numpy as np
import pytest

from pintgn.errors import BadFile
from pintgn.facts import AtLeast, DictOf, Maybe, check, digest_of, parse, read_arrays, read_json

SHAPE = {
    "seed": AtLeast(0),
    "scale": float,
    "kind": {"a", "b"},
    "names": [str],
    "inner": {"x": (int, None), "more": Maybe(bool)},
    "figures": DictOf(DictOf((float, None))),
}
GOOD = {"seed": 0, "scale": 1, "kind": "a", "names": ["n"], "inner": {"x": None}, "figures": {"all": {"ap": 0.5}}}


def test_what_has_the_shape_passes_with_whatever_else_it_has():
    assert check(GOOD | {"new": 1}, SHAPE, "it") == GOOD | {"new": 1}
    check(GOOD | {"seed": 2**63 - 1}, SHAPE, "it")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": -1}, "seed is -1, not a whole number from 0 on"),
        ({"seed": 2**63}, "seed is 9223372036854775808, not"),
        ({"seed": True}, "seed is True, not a whole number"),
        ({"seed": 1.0}, "seed is 1.0, not a whole number"),
        ({"scale": "1"}, "scale is '1', not a number"),
        ({"scale": False}, "scale is False, not a number"),
        ({"kind": "c"}, "kind is 'c', not 'a' or 'b'"),
        ({"kind": ["a"]}, r"kind is \['a'\], not"),
        ({"names": ["n", 3]}, r"names\[1\] is 3, not text"),
        ({"names": "n"}, "names is 'n', not a list"),
        ({"inner": []}, r"inner is \[\], not an object"),
        ({"inner": {}}, "inner has no 'x'"),
        ({"inner": {"x": "1"}}, "inner.x is '1', not a whole number or null"),
        ({"inner": {"x": 1, "more": 1}}, "inner.more is 1, not true or false"),
        ({"figures": {"all": {"ap": "x" * 90}}}, "figures.all.ap is 'x+…, not a number or null"),
    ],
)
def test_what_has_not_is_named(change, said):
    with pytest.raises(BadFile, match=f"run.json is damaged: {said}.*Train again") as error:
        check(GOOD | change, SHAPE, "run.json", "Train again.")
    assert "\n" not in str(error.value)


def test_every_field_is_missed():
    for name in SHAPE:
        with pytest.raises(BadFile, match=f"it is damaged: it has no '{name}'"):
            check({key: value for key, value in GOOD.items() if key != name}, SHAPE, "it")


@pytest.mark.parametrize("text", ["", "{", "[]", "nul", '"x"', b"\xff{}", "[" * 100_000])
def test_what_is_no_object_is_refused(text, tmp_path):
    with pytest.raises(BadFile, match="it is damaged") as error:
        parse(text, {}, "it")
    assert "\n" not in str(error.value)
    path = tmp_path / "facts.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadFile, match="is damaged"):
        read_json(path, {})


def test_a_missing_file_is_for_the_caller_to_explain(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "facts.json", {})
    with pytest.raises(BadFile, match="cannot read"):
        read_json(tmp_path, {})


def test_arrays_are_whole_or_refused(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, a=np.arange(100), b=np.zeros((3, 4)))
    good = path.read_bytes()
    assert read_arrays(path)["b"].shape == (3, 4)
    assert all(array.flags.owndata for array in read_arrays(path).values())
    rng = np.random.default_rng(0)
    for place in range(0, len(good), 13):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(bad)
        with contextlib.suppress(BadFile):  # or it was in a place without meaning, such as a date
            assert digest_of(read_arrays(path)) == digest_of({"a": np.arange(100), "b": np.zeros((3, 4))}), place
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(BadFile):
        read_arrays(path)
    with pytest.raises(BadFile, match="is missing"):
        read_arrays(tmp_path / "none.npz")


def test_an_array_that_says_it_is_shorter_is_not_believed(tmp_path):
    """NumPy reads as much as the header says, and then nobody looks at the checksum."""
    path = tmp_path / "arrays.npz"
    np.savez(path, a=np.arange(100))
    path.write_bytes(path.read_bytes().replace(b"'shape': (100,)", b"'shape': (10,) "))
    with pytest.raises(BadFile, match="is damaged"):
        read_arrays(path)


def test_one_array_alone_is_no_archive(tmp_path):
    path = tmp_path / "arrays.npz"
    sink = io.BytesIO()
    np.save(sink, np.arange(3))
    path.write_bytes(sink.getvalue())
    with pytest.raises(BadFile, match="is damaged"):
        read_arrays(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", b"no array")
    with pytest.raises(BadFile, match="is damaged"):
        read_arrays(path)


def test_a_digest_depends_on_names_types_shapes_and_values_but_not_on_order():
    one = {"a": np.arange(4), "b": np.ones(2)}
    assert digest_of(one) == digest_of(dict(reversed(one.items())))
    others = ({"a": np.arange(4), "c": np.ones(2)}, one | {"b": np.ones(2, np.float32)}, one | {"b": np.ones((2, 1))},
              one | {"b": np.zeros(2)}, {"a": np.arange(4)})  # fmt: skip
    assert len({digest_of(other) for other in (one, *others)}) == 6
    assert digest_of({"x": np.array(3.0)}) != digest_of({"x": np.array(4.0)})
