"""Threads of trainers on the cores of this machine, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import odtc
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import compiler_of_c
from tests.native.parity import TARGET, unpacked
from tests.needs import needs, needs_two_cores
from tests.numeric.mlp import mlp_artifact

pytestmark = needs(cc_command(), reason="no C compiler")

# What both programs ask the system.
TASKS = """
import os, sys

def tasks():
    return set(os.listdir("/proc/self/task"))

def said(task, field):
    lines = open(f"/proc/self/task/{task}/status").read().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(field))

def wait(worker):
    # Each is on its core before it waits for work.
    while said(worker, "State") != "S": pass
"""

# Prints the cores that each thread of a trainer may run on, those of the caller first; the caller
# comes to the core of the first worker before the last line.
WATCHED = """
from odtc.runtime_rpc.native.binding import NativeTrainer

def allowed(workers):
    for each in workers: wait(each)
    return [said(each, "Cpus_allowed_list") for each in (str(os.getpid()), *workers)]

threads, *cores = map(int, sys.argv[2:])
if cores: os.sched_setaffinity(0, cores)
before = tasks()
trainer = NativeTrainer(sys.argv[1], threads)
workers = sorted(tasks() - before)
trainer.step(0.1)
print(*(now := allowed(workers)))
if now[-1].isdigit(): os.sched_setaffinity(0, {int(now[-1])})
print(trainer.step(0.1).hex())
print(*allowed(workers))
"""


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlp")
    return unpacked(mlp_artifact(folder, odtc.SGD(), target=TARGET), folder / "artifact")


def watched(members: Path, *words: int, **environment: str) -> list[list[str]]:
    command = [sys.executable, "-c", TASKS + WATCHED, str(members), *map(str, words)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return [line.split() for line in done.stdout.splitlines()]


@needs_two_cores()
def test_a_worker_has_a_core_and_leaves_it_to_the_caller(members: Path) -> None:
    first, loss, then = watched(members, 2)
    allowed = {str(core) for core in os.sched_getaffinity(0)}
    assert first[1] in allowed
    # The caller's own cores are its user's matter.
    assert first[0] not in allowed
    assert then[0] == first[1]
    assert then[1] in allowed - {then[0]}
    # The bits are those of one thread.
    assert watched(members, 1)[1] == loss


def test_more_threads_than_cores_are_bound_to_none(members: Path) -> None:
    core = min(os.sched_getaffinity(0))
    assert watched(members, 2, core)[0] == [str(core), str(core)]


# Cores are chosen, and then are not any more.
CHANGED = """
import numpy as np
import odtc

trainer = odtc.load(sys.argv[1]).trainer(threads=2, cores="all")
before = tasks()
trainer.use_threads(2)
(worker,) = tasks() - before
wait(worker)
os.sched_setaffinity(0, {int(said(worker, "Cpus_allowed_list"))})
trainer.evaluate(np.zeros((8, 8), np.float32))
print(said(worker, "Cpus_allowed_list"), *os.sched_getaffinity(0))
"""


@needs_two_cores()
def test_threads_whose_cores_are_no_longer_chosen(tmp_path: Path) -> None:
    """They are not born on the core that their starter was bound to."""
    mlp_artifact(tmp_path, odtc.SGD(), target=TARGET).save(path := tmp_path / "mlp.odtc")
    command = [sys.executable, "-c", TASKS + CHANGED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    worker, caller = done.stdout.split()
    assert {worker, caller} <= {str(core) for core in os.sched_getaffinity(0)}
    assert worker != caller


def test_a_system_that_binds_no_thread(members: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "refuse.c", tmp_path / "refuse.so"
    source.write_text("#include <errno.h>\nint sched_setaffinity() { errno = EPERM; return -1; }\n")
    subprocess.run(
        [*compiler_of_c(), "-shared", "-fPIC", str(source), "-o", str(library)], check=True
    )
    first, loss, _ = watched(members, 2, LD_PRELOAD=str(library))
    assert first[0] == first[1]
    assert loss == watched(members, 1)[1]
