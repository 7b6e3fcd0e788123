"""Threads that are kept from their cores: nobody waits for one that has begun no task."""

import subprocess
from pathlib import Path

import pytest

import odtc
from odtc.core.process.cxx import cc_command
from tests.native.parity import TARGET, unpacked
from tests.native.sanitized import ADDRESS, THREAD, build, run
from tests.needs import needs
from tests.numeric.mlp import mlp_artifact

pytestmark = needs(cc_command(), reason="no C compiler")


@pytest.fixture(scope="module")
def late_workers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program in C, and the members of an artifact."""
    folder = tmp_path_factory.mktemp("late")
    artifact = mlp_artifact(folder, odtc.SGD(momentum=0.9), target=TARGET)
    return build("late_workers", folder, ADDRESS), unpacked(artifact, folder / "artifact")


@pytest.mark.parametrize(("threads", "late"), [(2, 1), (4, 1), (4, 3)])
def test_steps_without_their_workers(
    threads: int, late: int, late_workers: tuple[Path, Path]
) -> None:
    """They end, and their losses are those of one thread to the bit."""
    program, members = late_workers
    losses = run(program, members, [], [str(threads), str(late)]).split()
    assert losses == run(program, members, [], ["1", "0"]).split()
    assert len(set(losses)) == len(losses) > 3


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("pool", tmp_path_factory.mktemp("pool"), THREAD)


@pytest.mark.parametrize(("threads", "rounds"), [(2, 2000), (5, 2000), (64, 200)])
def test_tasks_are_run_once_each(threads: int, rounds: int, pool: Path) -> None:
    """Of kernels with any number of tasks; and a caller that waits for a worker's sleeps."""
    command = [str(pool), str(threads), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.1
