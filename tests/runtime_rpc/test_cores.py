"""The choice of cores: what it stands for on a phone, and where the threads are on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.core.errors import UsageError
from odtc.core.options.cores import cores_of, cores_of_threads, parse_cores
from odtc.runtime_rpc.server.cores import core_speeds
from odtc.runtime_rpc.sessions.session import Session
from tests.needs import needs_two_cores
from tests.runtime_rpc.own_server import SERVERS, serving
from tests.runtime_rpc.trees import plant

# Four small cores, three large ones and a larger one; as phones number them.
PHONE = dict.fromkeys(range(4), 1_800_000) | dict.fromkeys(range(4, 7), 2_400_000) | {7: 3_000_000}
ALIKE = {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("choice", "speeds", "cores"),
    [
        ("big", PHONE, [7, 4, 5, 6]),
        ("little", PHONE, [3, 2, 1, 0]),
        ("all", PHONE, [7, 4, 5, 6, 0, 1, 2, 3]),
        ("5,0", PHONE, [5, 0]),
        ("big", ALIKE, [0, 1]),
        ("little", ALIKE, [1, 0]),
    ],
)
def test_a_choice_stands_for_cores(choice: str, speeds: dict[int, int], cores: list[int]) -> None:
    assert cores_of(parse_cores(choice), speeds) == cores


def test_fewer_threads_take_the_first_cores() -> None:
    assert cores_of_threads(2, "big", PHONE) == [7, 4]
    assert cores_of_threads(0, "4,5", PHONE) == [4, 5]
    assert cores_of_threads(64, None, ALIKE) == [0, 1]
    with pytest.raises(UsageError, match="threads 5 is above 4, the number of cores"):
        cores_of_threads(5, "little", PHONE)


def test_speeds_are_read(tmp_path: Path) -> None:
    first, *_ = sorted(os.sched_getaffinity(0))
    name = f"sys/devices/system/cpu/cpu{first}/cpufreq/cpuinfo_max_freq"
    speeds = core_speeds(str(plant({name: "1804800\n"}, tmp_path)))
    assert speeds.pop(first) == 1804800
    assert set(speeds.values()) <= {0}


# In a fresh process: of its threads, those that TVM made since are those of the pool.
BOUND = """
import os, sys
import numpy as np
import odtc
from odtc.runtime_rpc.sessions.local import LocalSession

def allowed(task):
    lines = open(f"/proc/self/task/{task}/status").read().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))

session, own = LocalSession(), str(os.getpid())
free, before = allowed(own), set(os.listdir("/proc/self/task"))
artifact = odtc.load(sys.argv[1])
for choice in sys.argv[2:]:
    threads, cores = choice.split(":")
    trainer = artifact.trainer(session, int(threads), cores)
    trainer.evaluate(np.zeros((1, 1, 8, 8), np.float32))
    with trainer._engine._guarded():
        made = set(os.listdir("/proc/self/task")) - before
        print(allowed(own), *map(allowed, made))
    assert allowed(own) == free
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "d.onnx")
    odtc.compile(folder / "d.onnx", "host-cpu", batch=4).save(folder / "d.odtc")
    return folder / "d.odtc"


def test_threads_of_this_process_are_on_their_cores(artifact: Path) -> None:
    first, *_, last = [*sorted(os.sched_getaffinity(0))] * 2
    choices = {
        f"1:{last}": {last},
        f"1:{first}": {first},
        "1:all": {first},
        f"1:{last},{first}" if last != first else f"1:{last}": {last},
    }
    if last != first:
        choices |= {f"2:{last},{first}": {last, first}, "1:little": {last}}
    command = [sys.executable, "-c", BOUND, str(artifact), *choices]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    lines = [[int(core) for core in line.split()] for line in done.stdout.splitlines()]
    for (choice, cores), (own, *others) in zip(choices.items(), lines, strict=True):
        assert {own, *others} == cores, choice
        # Each of the pool has one of its own, beside that of the caller.
        if len(cores) > 1:
            assert own == int(choice.partition(":")[2].partition(",")[0])


def allowed(task: Path) -> str:
    lines = (task / "status").read_text("ascii").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))


@pytest.fixture(scope="module", params=SERVERS)
def server(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, server=request.param) as running:
        yield running


def bound_there(session: Session) -> tuple[str, list[str]]:
    """The cores of the thread that calls in a session's process, and of all its threads."""
    pid = session.info()["pid"]
    bound = {task.name: allowed(task) for task in Path(f"/proc/{pid}/task").iterdir()}
    return bound[str(pid)], list(bound.values())


def test_threads_of_a_device_are_on_their_cores(artifact: Path, server: str) -> None:
    session = odtc.connect(server)
    speeds = session.core_speeds()
    assert speeds is not None
    assert set(speeds) == set(os.sched_getaffinity(0))
    first, *_, last = [*sorted(speeds)] * 2
    loaded = odtc.load(artifact)
    trainer = loaded.trainer(session, cores=f"{last},{first}" if last != first else str(last))
    trainer.evaluate(np.zeros((1, 1, 8, 8), np.float32))
    caller, threads = bound_there(session)
    session.close()
    # The caller there, and what waits in the pool; other threads are free.
    assert caller == str(last)
    assert {str(first), str(last)} <= set(threads)
    with pytest.raises(UsageError, match="the device has no core 4096"):
        loaded.trainer(odtc.connect(server), cores="4096")


@needs_two_cores()
def test_kernels_that_are_measured_have_their_cores_too(server: str) -> None:
    session = odtc.connect(server)
    first, *_, last = sorted(session.core_speeds() or ())
    for cores in (f"{first},{last}", f"{last},{first}"):
        session.use_threads(2, cores)
        caller, threads = bound_there(session)
        assert caller == cores.partition(",")[0]
        assert {str(first), str(last)} <= set(threads)
    session.close()
