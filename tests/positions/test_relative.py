"""The public class: clock, transforms, copies, files, and what it says to bad input."""

from __future__ import annotations

import os

import numpy as np
import pytest

import pintgn.positions.capacity
from pintgn.errors import BadFile, BadInput, EventOrderError, StaleQuery, TooLarge, UnknownName
from pintgn.positions import RelativePositions, kernels_passes, kernels_sketch
from tests.positions.helpers import everything

BOTH = pytest.mark.parametrize("backend", ["exact", "sketch"])


def small(backend: str = "exact", **settings) -> RelativePositions:
    """0-1 at 1, 1-2 at 2 (twice), 2-2 at 3."""
    positions = RelativePositions(4, backend, **settings)
    positions.observe([0, 1, 1, 2], [1, 2, 2, 2], [1, 2, 2, 3])
    return positions


# --- forms of the answer --------------------------------------------------------------------------------------------


def test_transforms_are_what_they_say():
    # relative to 2, before 10: 0 is reached over 1-2 (two ways) then 0-1; with the loop at 3 first, in three steps
    positions = small(time_unit=2.0)
    raw = positions.read([0, 1, 2], 2, at=10, transform="raw")
    assert raw.tolist() == [[0, 0, 2, 2], [0, 2, 2, 0], [1, 1, 0, 0]]
    assert np.allclose(positions.read([0, 1, 2], 2, at=10), np.log1p(raw))
    assert np.allclose(positions.read([0, 1, 2], 2, at=10, transform="l1"), raw / raw.sum(1, keepdims=True))
    # first event at 1, now 10, unit 2: level k is divided by (1 + 9 / 2) ** k
    assert np.allclose(positions.read([0, 1, 2], 2, at=10, transform="rate"), raw / 5.5 ** np.arange(4))


def test_log1p_is_exact_to_single_precision():
    values = np.concatenate([np.arange(5000.0), 10.0 ** np.random.default_rng(0).uniform(-12, 300, 20000)])
    raw, out = values.reshape(1, 1, -1, 1).copy(), np.zeros((1, len(values), 1, 1), np.float32)
    kernels_passes.log_counts(raw, raw.view(np.int64), out)
    assert np.allclose(out.ravel(), np.log1p(values), rtol=1.2e-7, atol=0)


def test_l1_of_nothing_is_zero():
    assert small().read(0, 3, transform="l1").tolist() == [0, 0, 0, 0]


def test_a_query_at_the_first_event_has_a_finite_rate():
    positions = RelativePositions(3, time_unit=1e-9)
    positions.observe(0, 1, 5)
    assert positions.read(0, 0, at=5, transform="rate").tolist() == [1, 0, 0]


@BOTH
def test_reads_broadcast(backend):
    positions = small(backend)
    table = positions.read(np.arange(3)[:, None], np.arange(3))
    assert table.shape == (3, 3, 4)
    assert positions.read(1, 2).shape == (4,)
    assert np.array_equal(positions.read(1, 2), table[1, 2])
    assert np.array_equal(positions.read([0, 1, 2], 2), table[:, 2])
    assert np.array_equal(positions.read(2, [0, 1, 2], at=[7, 7, 7]), table[2])
    assert positions.read(np.zeros((2, 0), int), 1).shape == (2, 0, 4)


@BOTH
def test_each_read_may_have_its_own_time(backend):
    positions = small(backend)
    assert np.array_equal(positions.read(1, 2, at=[3, 4]), [positions.read(1, 2, at=3), positions.read(1, 2, at=4)])


# --- the clock ------------------------------------------------------------------------------------------------------


def test_clock_and_size_follow_the_events():
    positions = RelativePositions(4, nodes=50)
    assert positions.clock is None
    assert positions.size == 0
    positions.observe([0, 7], [1, 2], [3, 4])
    assert positions.clock == 4
    assert type(positions.clock) is int
    assert positions.size == 8
    positions.observe([], [], [])
    assert positions.clock == 4


def test_times_keep_their_last_digit():
    positions = RelativePositions(2)
    late = 2**60
    positions.observe([0, 0], [1, 1], [late, late + 1])
    assert positions.clock == late + 1
    assert positions.read(0, 1, at=late + 1, transform="raw").tolist() == [0, 1]
    assert positions.read(0, 1, at=late + 2, transform="raw").tolist() == [0, 2]


def test_float_times_are_kept_as_they_are():
    positions = RelativePositions(2)
    positions.observe([0, 0], [1, 1], [0.5, np.nextafter(0.5, 1)])
    assert positions.read(0, 1, at=positions.clock, transform="raw").tolist() == [0, 1]
    positions.observe(0, 1, 2)  # a whole number is one of them
    assert positions.clock == 2.0


@BOTH
def test_advance_closes_the_open_group(backend):
    positions = small(backend)
    expected = everything(positions, 3, None)
    positions.advance(10)
    assert positions.clock == 10
    assert np.array_equal(everything(positions, 3, 10), expected)
    with pytest.raises(EventOrderError, match="before the clock"):
        positions.observe(0, 1, 3)
    with pytest.raises(StaleQuery):
        positions.advance(9)


def test_times_far_apart_do_not_wrap():
    positions = RelativePositions(2, time_unit=1e18)
    positions.observe([0, 0], [1, 1], [-(2**62), 2**62])
    found = positions.read(0, 1, at=2**62 + 1, transform="rate")
    assert found[1] == pytest.approx(2 / (1 + 2**63 / 1e18))


# --- copies and files -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("settings", [{}, {"nodes": 50}])
def test_fork_isolates(backend, settings):
    positions = small(backend, **settings)
    fork, before = positions.fork(), everything(positions, 3, None)
    fork.observe([0, 5], [2, 0], [3, 9])
    assert np.array_equal(everything(positions, 3, None), before)
    assert not np.array_equal(everything(fork, 3, None), before)
    positions.observe([0, 5], [2, 0], [3, 9])  # the open group went along
    assert np.array_equal(everything(positions, 6, None), everything(fork, 6, None))
    assert repr(fork).split(", ")[:4] == repr(positions).split(", ")[:4]


@BOTH
@pytest.mark.parametrize("settings", [{}, {"time_unit": 3.0}, {"nodes": 50}])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(tmp_path, backend, settings):
    positions = small(backend, seed=5, **settings)
    positions.save(tmp_path / "positions.npz")
    opened = RelativePositions.open(tmp_path / "positions.npz")
    assert (opened.clock, opened.size, opened.backend) == (positions.clock, positions.size, backend)
    for each in (positions, opened):
        each.observe([0, 1], [2, 4], [3, 8])
        each.observe([300], [1], [9])  # a node beyond those that were saved
    for transform in ("raw", "log1p", *(["rate"] if "time_unit" in settings else [])):
        assert np.array_equal(everything(positions, 6, None, transform), everything(opened, 6, None, transform))
    assert os.listdir(tmp_path) == ["positions.npz"]


def test_an_empty_state_can_be_saved(tmp_path):
    RelativePositions(2).save(tmp_path / "p")
    opened = RelativePositions.open(tmp_path / "p")
    opened.observe(0, 1, 0.5)
    assert opened.clock == 0.5


def test_files_hold_plain_arrays(tmp_path):
    small().save(tmp_path / "positions.npz")
    with np.load(tmp_path / "positions.npz", allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "iuf" for name in file.files)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    small().save(tmp_path / "positions.npz")
    before = (tmp_path / "positions.npz").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(BadFile, match="No space left"):
        small().save(tmp_path / "positions.npz")
    assert (tmp_path / "positions.npz").read_bytes() == before
    assert os.listdir(tmp_path) == ["positions.npz"]


def test_files_that_are_no_positions_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    whole = tmp_path / "whole.npz"
    small().save(whole)
    (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:400])
    for name in ("text", "other.npz", "cut.npz"):
        with pytest.raises(BadFile, match="does not hold positions"):
            RelativePositions.open(tmp_path / name)
    with pytest.raises(BadFile, match="does not exist"):
        RelativePositions.open(tmp_path / "nothing.npz")


def test_repr_says_what_there_is():
    assert repr(small()).startswith("RelativePositions: exact, d=4, 3 nodes, clock 3, ")
    assert "no events yet" in repr(RelativePositions(2))


def test_bytes_are_counted():
    positions = small("sketch", width=64, nodes=1000)
    assert positions.nbytes >= 1000 * 3 * 64 * 4


# --- bad input: one clear line each ---------------------------------------------------------------------------------

EVENTS = [
    (([0], [1], [2]), EventOrderError, r"event 0 has t=2, before the clock \(t=3\)"),
    (([0, 0], [1, 1], [5, 4]), EventOrderError, r"event 1 has t=4, earlier than event 0 \(t=5\)\. Sort"),
    (([-2], [1], [4]), BadInput, "event 0 has src=-2; node ids are 0 or more"),
    (([0], [-1], [4]), BadInput, "event 0 has dst=-1; node ids are 0 or more"),
    (([0.0], [1], [4]), BadInput, r"src must be node ids \(integers\), got float64"),
    ((["a"], [1], [4]), BadInput, r"src must be node ids \(integers\), got <U1"),
    (([[0]], [1], [4]), BadInput, r"columns of one length; got shapes src \(1, 1\)"),
    (([[0], [1, 2]], [1], [4]), BadInput, "unequal length"),
    (([0, 1], [1], [4]), BadInput, r"columns of one length; got shapes src \(2,\), dst \(1,\)"),
    (([2**31], [1], [4]), BadInput, "node id 2147483648 is too large: .* end at 2147483646"),
    (([2**63], [1], [4]), BadInput, r"src must be node ids \(integers\), got uint64"),
    (([0], [1], [np.nan]), BadInput, r"t is float64 \(nan…\), but times are kept as int64"),
    (([0], [1], [np.inf]), BadInput, r"t is float64 \(inf…\)"),
    (([0], [1], np.array([4], np.float32)), BadInput, "float32 merges neighboring times"),
    (([0], [1], [4.5]), BadInput, r"t is float64 \(4.5…\), but times are kept as int64"),
    (([0], [1], ["4"]), BadInput, "t must be int64 or float64"),
    (([0], [1], [2**64]), BadInput, "t must be int64 or float64"),
]


@BOTH
@pytest.mark.parametrize(("events", "error", "message"), EVENTS)
def test_bad_events_are_refused_and_change_nothing(backend, events, error, message):
    positions = small(backend)
    before = everything(positions, 3, None)
    with pytest.raises(error, match=message) as caught:
        positions.observe(*events)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert positions.clock == 3
    assert np.array_equal(everything(positions, 3, None), before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 1, 2), StaleQuery, r"asked for positions at t=2; events up to t=3 have been observed"),
        ((0, 1, 3.5), BadInput, r"at is float64 \(3.5…\)"),
        ((0, 1, np.nan), BadInput, r"at is float64 \(nan…\)"),
        ((-2, 1, None), BadInput, r"nodes holds -2; node ids are 0 or more \(-1 is padding\)"),
        ((0, -7, None), BadInput, "roots holds -7"),
        ((0.5, 1, None), BadInput, r"nodes must be node ids \(integers\), got float64"),
        (([0, 1], [0, 1, 2], None), BadInput, r"shapes \(2,\) and \(3,\), which do not broadcast"),
    ],
)
def test_bad_reads_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        small().read(*arguments)


def test_bad_batches_are_refused_and_change_nothing():
    positions = small()
    with pytest.raises(BadInput, match=r"\(q, m\), \(q, w\) and \(q,\)"):
        positions.replay([0], [1], [4], [0], [0], [4])
    with pytest.raises(BadInput, match=r"shapes \(1, 1\), \(2, 1\) and \(1,\)"):
        positions.replay([0], [1], [4], [[0]], [[0], [1]], [4])
    with pytest.raises(StaleQuery):
        positions.replay([0], [1], [4], [[0]], [[0]], [2])
    with pytest.raises(EventOrderError):
        positions.replay([0], [1], [2], [[0]], [[0]], [4])
    with pytest.raises(UnknownName, match="there is no transform 'log'. Did you mean 'log1p'"):
        positions.replay([0], [1], [4], [[0]], [[0]], [4], transform="log")
    assert positions.clock == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d": 0}, "d must be at least 1, got 0"),
        ({"d": 2.5}, "d must be a whole number, got 2.5"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"nodes": -1}, "nodes must be at least 0, got -1"),
        ({"backend": "dense"}, "backend='dense'; it is 'auto', 'exact' or 'sketch'"),
        ({"time_unit": 0}, "time_unit=0; it is a positive number"),
        ({"time_unit": np.nan}, "time_unit=nan; it is a positive number"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(BadInput, match=message):
        RelativePositions(**settings)


def test_a_rate_needs_its_unit():
    with pytest.raises(BadInput, match="give RelativePositions a time_unit"):
        small().read(0, 1, transform="rate")


# --- too large ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["exact", "sketch"])
def test_too_many_nodes_are_refused_with_what_would_fit(backend):
    with pytest.raises(TooLarge, match=r"needs [\d.,]+ TB.*are free\. .*(fit|would take)"):
        RelativePositions(4, backend, nodes=2**40)
    positions = small(backend)
    with pytest.raises(TooLarge, match="needs"):
        positions.observe([2**31 - 2], [0], [4]) if backend == "sketch" else positions._store.reserve(2**40)
    assert positions.clock == 3
    assert everything(positions, 3, None).any()


def test_running_out_of_memory_in_mid_stream_loses_no_event(monkeypatch):
    rng = np.random.default_rng(0)
    log = rng.integers(0, 400, 3000), rng.integers(0, 400, 3000), np.arange(3000)
    expected = RelativePositions(4, "exact")
    expected.observe(*log)
    positions = RelativePositions(4, "exact")
    with monkeypatch.context() as patch:
        patch.setattr(pintgn.positions.capacity, "SMALL", 0)
        patch.setattr(pintgn.positions.capacity, "available", lambda: 200_000 - positions.nbytes)
        with pytest.raises(TooLarge, match=r"exact positions of \d+ nodes needs .* backend='sketch' with width=64"):
            positions.observe(*log)
        with pytest.raises(TooLarge):
            positions.read(0, 1)  # not a wrong answer
    assert np.array_equal(everything(positions, 400, None), everything(expected, 400, None))


def test_an_answer_that_does_not_fit_is_refused_before_anything_changes(monkeypatch):
    positions = small()
    monkeypatch.setattr(pintgn.positions.capacity, "available", lambda: 10**6)
    with pytest.raises(TooLarge, match=r"an answer of 1,000,000 positions needs 48\.0 MB.* Ask in smaller batches"):
        positions.replay([0], [1], [9], np.zeros((1000, 500), int), np.zeros((1000, 2), int), np.full(1000, 9))
    assert positions.clock == 3


# --- compiled code --------------------------------------------------------------------------------------------------


def test_no_kind_of_argument_is_compiled_for_twice():
    """Numba compiles for every new combination of argument types, which takes many seconds."""
    frozen = np.arange(8).reshape(2, 4)
    frozen.flags.writeable = False
    for backend in ("exact", "sketch"):
        positions = RelativePositions(4, backend)
        positions.read(3, 3, at=4.0)
        positions.observe(frozen[0], frozen[1], frozen[0])
        positions.read(frozen.T, frozen.T[::-1], at=9)
        positions.replay([1], [2], [9], frozen, frozen[:, ::2], [11, 10])
        positions.fork().observe(np.int32(1), 2, 12)
        floats = RelativePositions(4, backend)
        floats.observe([0, 1], [1, 2], [0.5, 1.5])
        floats.read(0, 1, at=2)
    assert len(kernels_passes.exact_pass.signatures) <= 2  # four-byte and eight-byte counts
    for kernel in (kernels_sketch.sketch_pass, kernels_passes.pair_up, kernels_passes.log_counts):
        assert len(kernel.signatures) <= 1 + (kernel is kernels_passes.log_counts)
