"""What a test waits for in a thread ends with the test."""

import threading

from tests.meanwhile import as_soon_as


def test_it_is_done_once_and_within_the_block() -> None:
    ready, done = threading.Event(), threading.Event()
    with as_soon_as(ready.is_set, done.set):
        assert not done.is_set()
        ready.set()
        assert done.wait(60)


def test_what_never_comes_is_not_waited_for() -> None:
    done = threading.Event()
    with as_soon_as(lambda: False, done.set):
        pass
    assert not done.is_set()
