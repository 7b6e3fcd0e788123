"""Processes that answer, and what becomes of a request whose process does not."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odtc.autoschedule.tuning.workers import Failed, Workers


def start() -> Callable[[Any], Any]:
    """In the process: counts its requests, or does what they say."""
    count = 0

    def answer(request: Any) -> Any:
        nonlocal count
        count += 1
        if request == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if request == "sleep":
            time.sleep(60)
        if request == "fail":
            raise ValueError("a stack of C++\n\n  and what it means")
        return request, count, os.getpid()

    return answer


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(start, 2, seconds=5.0)
    yield made
    made.close()


def test_processes_stay_alive_and_answers_have_the_order_of_requests(workers: Workers) -> None:
    answers = workers.all(list(range(12)))
    assert [request for request, *_ in answers] == list(range(12))
    assert len({process for *_, process in answers}) <= 2
    assert workers.all([]) == []
    again = workers.all(["more"])
    assert again[0][1] > 1


def test_what_ends_a_process_or_fails_has_a_reason_and_others_go_on(workers: Workers) -> None:
    died, failed, *rest = workers.all(["die", "fail", *range(4)])
    assert died == Failed("the process was ended by SIGSEGV")
    assert failed == Failed("ValueError: and what it means")
    assert [request for request, *_ in rest] == list(range(4))


def test_what_takes_too_long_is_ended(workers: Workers) -> None:
    asleep, awake = Workers(start, 2, seconds=3.0).all(["sleep", 1])
    assert asleep == Failed("it took more than 3 s")
    assert awake[0] == 1
