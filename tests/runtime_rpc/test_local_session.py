"""Threads of this process: a step has one for each core, and its owner stays unbound."""

import os
import subprocess
import sys

import pytest

# In a fresh process: TVM's pool is made once.
CODE = """
import os, sys
import numpy as np
from odtc.artifact import load
from odtc.runtime_rpc.sessions.local import LocalSession
from benchmarks.virtual_machine import VirtualMachineHere

def tasks():
    return len(os.listdir("/proc/self/task"))

before, alone = os.sched_getaffinity(0), tasks()
session = VirtualMachineHere() if sys.argv[2] == "tvm" else LocalSession()
trainer = load(sys.argv[1]).trainer(session, threads=64)
assert os.sched_getaffinity(0) == before
trainer.evaluate(np.zeros((1, 1, 8, 8), np.float32))
assert os.sched_getaffinity(0) == before
if sys.argv[2] == "tvm":
    import tvm
    print(tvm.get_global_func("runtime.NumThreads")())
else:
    print(tasks() - alone + 1)
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    import onnx

    import odtc
    from benchmarks.models.digits import digits_model

    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "digits.onnx")
    odtc.compile(folder / "digits.onnx", "host-cpu{threads=64}", batch=4).save(
        folder / "digits.odtc"
    )
    return folder / "digits.odtc"


def threads_of_the_pool(artifact, engine: str = "tvm", **variables: str) -> int:
    environment = {k: v for k, v in os.environ.items() if k != "TVM_NUM_THREADS"} | variables
    done = subprocess.run(
        [sys.executable, "-c", CODE, artifact, engine],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return int(done.stdout)


@pytest.mark.parametrize("engine", ["native", "tvm"])
def test_every_core_has_a_thread_and_the_caller_stays_unbound(artifact, engine: str):
    assert threads_of_the_pool(artifact, engine) == len(os.sched_getaffinity(0))


def test_the_user_may_choose_otherwise(artifact):
    assert threads_of_the_pool(artifact, TVM_NUM_THREADS="1") == 1


BOUND = """
import os, sys
import numpy as np
from odtc.artifact import load

everywhere = os.sched_getaffinity(0)
trainer = load(sys.argv[1]).trainer(threads=len(everywhere), cores=sys.argv[2])
trainer.evaluate(np.zeros((1, 1, 8, 8), np.float32))
tasks = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
print(*(core for cores in tasks for core in cores if cores != everywhere))
"""


def test_threads_are_bound_to_the_fastest_or_slowest_cores(artifact):
    def bound(cores: str) -> set[str]:
        command = [sys.executable, "-c", BOUND, artifact, cores]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        return set(done.stdout.split())

    # The caller stays unbound; the others leave the first core free, or the last.
    count = len(os.sched_getaffinity(0))
    big, little = bound("big"), bound("little")
    assert len(big) == len(little) == count - 1
    assert (big == little) == (count == 1)
