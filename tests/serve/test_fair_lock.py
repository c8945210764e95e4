"""A fair lock: readers share, the writer is alone, nobody overtakes."""

from __future__ import annotations

import threading

from pintgn.serve.states import FairLock


def started(target) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_readers_share():
    lock, both = FairLock(), threading.Barrier(2, timeout=10)

    def read():
        with lock.reading:
            both.wait()  # passes only if the other is inside, too

    threads = [started(read) for _ in range(2)]
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_the_writer_is_alone():
    lock, inside, seen = FairLock(), [], []

    def write():
        for _ in range(200):
            with lock.writing:
                inside.append("w")
                seen.append(list(inside))
                inside.pop()

    def read():
        for _ in range(200):
            with lock.reading:
                inside.append("r")
                seen.append("w" in inside)
                inside.remove("r")

    threads = [started(write), started(read), started(read)]
    for thread in threads:
        thread.join(20)
    assert all(one in (False, ["w"]) for one in seen)


def test_a_reader_that_comes_after_a_waiting_writer_waits_for_it():
    lock, order = FairLock(), []
    first_inside, may_leave = threading.Event(), threading.Event()

    def first():
        with lock.reading:
            first_inside.set()
            may_leave.wait(10)

    def write():
        with lock.writing:
            order.append("writer")

    def late():
        with lock.reading:
            order.append("reader")

    one = started(first)
    first_inside.wait(10)
    two = started(write)
    while len(lock.waiting) < 1:
        pass
    three = started(late)
    while len(lock.waiting) < 2:
        pass
    assert order == [], "the late reader has overtaken the writer"
    may_leave.set()
    for thread in (one, two, three):
        thread.join(10)
    assert order == ["writer", "reader"]
