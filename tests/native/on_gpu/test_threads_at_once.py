"""Threads that ask for a device at one time, the first ones of their process, all find it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odtc.runtime_rpc.native.build import GPUS, runtime_library
from tests.native.on_gpu.same_run import KINDS

ROOT = str(Path(__file__).parents[3])
ASKED = """
import sys, threading
from odtc.runtime_rpc.native.interface import loaded_gpu_runtime
from odtc.runtime_rpc.native.on_gpu import find_gpu

loaded_gpu_runtime()
together, found = threading.Barrier(8), []

def ask():
    together.wait()
    found.append(find_gpu(sys.argv[1]).name)

threads = [threading.Thread(target=ask) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(found), len(set(found)))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_all_find_the_device(kind: str) -> None:
    runtime_library(GPUS)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", ASKED, kind],
        env=os.environ | {"PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "8 1\n"), done.stderr
