"""Work ahead of who asks for it."""

import sys
import threading
from collections.abc import Iterator

import pytest

from odtc.runtime_rpc.data.ahead import ahead


def test_results_come_in_their_order_and_errors_in_their_turn():
    assert [*ahead(lambda n: n * n, range(20))] == [n * n for n in range(20)]
    found = ahead(lambda n: 6 // (3 - n), range(9))
    assert [next(found) for _ in range(3)] == [2, 3, 6]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_a_worker_that_collects_the_generator_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
):
    """The collector of cycles runs in any thread, and an error refers to frames that held it."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    held: list[Iterator[int]] = []
    given, dropped = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number == 1:
            assert given.wait(60)
            held.clear()
            dropped.set()
        return number

    # One result is there; the second is under way when nobody but the list has the generator.
    held.append(ahead(work, range(9)))
    assert next(held[0]) == 0
    given.set()
    assert dropped.wait(60)
    assert not ignored
