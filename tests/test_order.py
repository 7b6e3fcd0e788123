"""The order of files over several processes."""

import os
from pathlib import Path

import pytest

from tests.order import SECONDS, longest_first, processes


def test_files_that_have_seconds_are_there() -> None:
    for name in SECONDS:
        assert Path(__file__).parent.joinpath(f"{name}.py").is_file(), name


def test_the_longest_come_first(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    files = list(dict.fromkeys(item.path for item in longest_first(items)))
    assert sorted(longest_first(items), key=id) == sorted(items, key=id)
    root = Path(__file__).parent
    seconds = [SECONDS.get(file.relative_to(root).with_suffix("").as_posix(), 0) for file in files]
    assert seconds == sorted(seconds, reverse=True)


def test_there_are_more_processes_than_cores(request: pytest.FixtureRequest) -> None:
    assert [processes(cores) for cores in (1, 2, 3, 8)] == [2, 3, 5, 12]
    hook = request.config.pluginmanager.hook.pytest_xdist_auto_num_workers
    assert hook(config=request.config) == processes(len(os.sched_getaffinity(0)))


def test_names_are_the_same_in_all_processes(request: pytest.FixtureRequest) -> None:
    """Else processes do not share tests: an object's `repr` has its address."""
    assert not [name for item in request.session.items if " at 0x" in (name := item.nodeid)]


def test_processes_take_the_files_in_that_order(pytestconfig: pytest.Config) -> None:
    """However the tests are started: xdist would begin with files of many tests."""
    assert not pytestconfig.option.loadscopereorder
