"""Makes the repository the root that `tests` and `benchmarks` are imported from."""

import atexit
import ctypes
import gc
import os
import shutil
import signal
import sys
import tempfile
from multiprocessing.util import get_temp_dir
from pathlib import Path

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from odtc.torch_export.torchvision_anyway import import_torchvision_anyway
from tests.caches import anew, of_this_run, patching
from tests.exporting import exporter_reads_once
from tests.hangs import Watch
from tests.order import longest_first, processes
from tests.tvmscript import callers_are_not_read

# A million objects are made until the tests are collected, and most of them stay.
gc.disable()
# Tests import transformers and PEFT, and these torchvision.
import_torchvision_anyway()
# In CI hypothesis would draw the same examples each time.
settings.load_profile("default")
# A shell lets its jobs in the background ignore interrupts, which tests send to their processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Where the process listens that trackers are forked from: in the folder of no test, as the first
# one with a tracker may have its own for temporary files.
get_temp_dir()
# Tests start processes by the hundred, and each imports the sources: what Python compiles of them,
# and pytest of its tests, is kept, whatever the shell says that the tests are started from.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What the user of this machine has tuned is no part of a test.
os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir(), "none-of-the-users-own"))

_C = ctypes.CDLL(None)


def _caches() -> tuple[str, str]:
    """That of this run, and that of tests which change the compiler."""
    folder = Path(tempfile.mkdtemp(prefix="cache-of-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return of_this_run(folder / "run", is_worker=is_worker), anew(folder / "anew")


# Threads of PyTorch that wait leave the cores to other processes of tests. There are as many.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["XDG_CACHE_HOME"], _ANEW = _caches()
pytest.MonkeyPatch.setattr = patching(
    os.environ["XDG_CACHE_HOME"], _ANEW, pytest.MonkeyPatch.setattr
)


def pytest_configure(config: pytest.Config) -> None:
    """Ends tests that hang wherever they do, and has the files in our order."""
    config.pluginmanager.register(Watch(config))
    # That of xdist is by how many tests a file has, of which one may take a minute.
    config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Processes of `-n auto`: more than cores, as tests wait for what they started to end."""
    return processes(len(os.sched_getaffinity(0)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Processes that share the files begin with the longest."""
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def pytest_collection_finish() -> None:
    """Readies what the collection has imported for the tests.

    Its objects are frozen, or tests that collect garbage would visit them all. What of them is
    garbage stays: to find the tenth that it is takes seconds.
    """
    if "torch" in sys.modules:
        exporter_reads_once()
    if "tvm" in sys.modules:
        callers_are_not_read()
    # PyTorch and numpy compute references: several threads would wait for cores of other tests.
    threadpool_limits(1)
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Returns memory that a file's tests freed to the system, which other processes share."""
    if nextitem is not None and nextitem.path != item.path:
        _C.malloc_trim(0)
