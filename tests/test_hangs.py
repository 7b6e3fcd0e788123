"""Tests that hang, in a run of their own: each is named, and all others are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]

_CONFTEST = """
import tests.hangs

tests.hangs.LATER_SECONDS = 1.0

def pytest_configure(config):
    config.pluginmanager.register(tests.hangs.Watch(config))
"""
# A lock of C that is taken twice, with Python's own lock and without.
_HANGING = """
import ctypes
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

def wait_in(library):
    lock = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)

def test_before(): pass

def test_in_c(): wait_in(ctypes.CDLL(None))

def test_in_c_that_lets_nobody_else_run(): wait_in(ctypes.PyDLL(None))

@settings(deadline=None, database=None)
@given(st.integers(0, 9))
def test_in_an_example(number):
    while number > 3: pass

@pytest.fixture
def waits():
    yield
    time.sleep(60)

def test_in_a_fixture_of_one_that_failed(waits): time.sleep(60)

def test_behind(): pass
"""
# The functions that they hang in.
_HANGS = {
    "test_in_c": "wait_in",
    "test_in_c_that_lets_nobody_else_run": "wait_in",
    "test_in_an_example": "test_in_an_example",
    "test_in_a_fixture_of_one_that_failed": "waits",
}


def run(folder: Path, *options: str) -> str:
    """What pytest says of these tests."""
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_these.py").write_text(_HANGING)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --timeout=1 -p no:cacheprovider\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(_ROOT), "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode
    return done.stdout


def test_each_hang_is_named_and_all_others_run(tmp_path: Path) -> None:
    said = run(tmp_path, "-n", "2", "--dist", "loadfile")
    for name, function in _HANGS.items():
        # As a report of its own: the summary repeats it, as far as its lines are long.
        reports = re.findall(
            rf"^worker '\w+' crashed .* 'test_these.py::{name}'$", said, re.MULTILINE
        )
        assert len(reports) == 1, said
        assert f" in {function}\n" in said, said
    assert "PASSED test_these.py::test_before" in said, said
    assert "PASSED test_these.py::test_behind" in said, said
