"""Threads that train while the main one has come to its end, or the process has."""

import subprocess
import sys
from pathlib import Path

import pytest

import odtc
from tests.numeric.mlp import mlp_artifact

START = """
import atexit, os, sys, threading, time
import numpy as np, odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.runtime_rpc.sessions.local import LocalSession
session = VirtualMachineHere() if sys.argv[2] == "tvm" else LocalSession()
trainer = odtc.load(sys.argv[1]).trainer(session, threads=2)
x, y = np.ones((8, 8), np.float32), np.arange(8) % 5


def train():
    for _ in range(20):
        trainer.step(x, y, lr=0.05)
        time.sleep(0.005)
    print(trainer.steps, flush=True)


def in_a_thread(work, **options):
    thread = threading.Thread(target=work, **options)
    thread.start()
    return thread

"""
CASES = {
    "the main thread has ended": ("in_a_thread(train)", "20"),
    "a handler at the end has one": (
        "in_a_thread(train).join(); atexit.register(lambda: in_a_thread(train).join())",
        "20 40",
    ),
    # As it is registered before odtc's own.
    "a handler after odtc's has one": (
        "atexit.register(lambda: in_a_thread(train).join()); in_a_thread(train).join()",
        "20 40",
    ),
    "nobody waits for it": (
        "in_a_thread(lambda: [train() for _ in iter(int, 1)], daemon=True); time.sleep(0.05)",
        "",
    ),
    "a fork ends": (
        "in_a_thread(train).join()\n"
        "if not os.fork(): sys.exit()\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))",
        "20 0",
    ),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlp")
    mlp_artifact(folder, odtc.SGD(), target="host-cpu{threads=2}").save(folder / "m.odtc")
    return folder / "m.odtc"


# TVM's takes seconds to start, and has the same turns.
@pytest.mark.parametrize(
    ("engine", "case"), [*(("native", case) for case in CASES), ("tvm", next(iter(CASES)))]
)
def test_steps_while_all_ends(saved: Path, engine: str, case: str) -> None:
    code, wanted = CASES[case]
    command = [sys.executable, "-c", START + code, str(saved), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert not done.returncode, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    assert done.stdout.split() == wanted.split()
