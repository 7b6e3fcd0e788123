"""Processes that answer, and the fate of a request whose process does not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odtc.autoschedule.tuning.workers import Failed, Workers
from odtc.core.disk.left_behind import new_folder


def start() -> Callable[[Any], Any]:
    """In the process: counts its requests, or does what they say."""
    count = 0

    def answer(request: Any) -> Any:
        nonlocal count
        count += 1
        if request == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if request == "sleep":
            print(os.getpid(), new_folder().name, flush=True)
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


def imported() -> Callable[[Any], Any]:
    import tvm

    return lambda _: (tvm.__name__ in sys.modules, "torch" in sys.modules)


def test_they_have_tvm_without_pytorch() -> None:
    made = Workers(imported, 1, seconds=120.0)
    assert made.all([None]) == [(True, False)]
    made.close()


def test_what_takes_too_long_is_ended(workers: Workers) -> None:
    asleep, awake = Workers(start, 2, seconds=3.0).all(["sleep", 1])
    assert asleep == Failed("it took more than 3 s")
    assert awake[0] == 1


# Asks for what takes a minute, in a process that is killed meanwhile.
_ASKS = """
from odtc.autoschedule.tuning.workers import Workers

if __name__ == "__main__":
    from begins import start
    Workers(start, 1, seconds=60.0).all(["sleep"])
"""
# What takes that long: an answer, or the imports before it.
_BEGINS = {
    "answer": "from tests.autoschedule.test_tuning_workers import start",
    "import": """
import multiprocessing
from tests.autoschedule import test_tuning_workers

def start():
    return test_tuning_workers.start()

if multiprocessing.current_process().name != "MainProcess":
    start()("sleep")
""",
}


@pytest.mark.parametrize("begins", _BEGINS.values(), ids=_BEGINS)
def test_what_a_killed_process_asked_for_ends_at_once_and_leaves_nothing(
    begins: str, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "asks.py").write_text(_ASKS)
    (tmp_path / "begins.py").write_text(begins)
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": root}
    with subprocess.Popen(
        [sys.executable, tmp_path / "asks.py"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        pid, folder = process.stdout.readline().split()
        assert [path.name for path in (tmp_path / "tmp").iterdir()] == [folder]
        process.kill()
    end = time.monotonic() + 10
    while Path("/proc", pid).exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not any((tmp_path / "tmp").iterdir())


def test_processes_that_are_closed_leave_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    workers = Workers(start, 1, seconds=2.0)
    assert workers.all(["sleep"]) == [Failed("it took more than 2 s")]
    workers.close()
    assert not any(tmp_path.iterdir())
