"""Steps stay within their tensors: a sample; and what would not is seen."""

import ctypes
import faulthandler
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.passes.memory.packing.problem import Buffer, PackingProblem
from odtc.passes.memory.packing.validate import validate
from tests.fuzz.verdict import fed
from tests.guarded.memory import PAGE, Guarded, end_aligned, whole_pages
from tests.guarded.models import model_of
from tests.guarded.plan import apart, solve_apart
from tests.guarded.session import GuardedSession, guarded_arguments
from tests.guarded.worker import attempt

SAMPLE = ("digits", "kind:lstm", "kind:unet", "operator:MatMul", "corpus:selection")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_step_stays_within_its_tensors(name: str) -> None:
    assert attempt(name).kind == "trained"


@pytest.mark.parametrize(
    ("place", "ends"), [(8128, False), (8191, False), (8192, True), (4096, False), (4095, True)]
)
def test_a_page_beside_a_tensor_ends_the_process(place: int, ends: bool) -> None:
    guarded = Guarded([(8128, 64)], 12288)
    # In a fork: a process of its own would import TVM to read one byte.
    if not (child := os.fork()):
        try:
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            ctypes.string_at(guarded.address + place, 1)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGSEGV if ends else 0)


def test_what_is_written_beside_a_tensor_is_seen() -> None:
    size = 100
    begin = PAGE + end_aligned(size)
    guarded = Guarded([(begin, size)], 2 * PAGE + whole_pages(size))
    guarded.fill(0xFF)
    tensor = np.from_dlpack(guarded.tensor(begin, (25,), "float32"))
    tensor[:] = 1
    assert not guarded.written_beside(0xFF)
    np.lib.stride_tricks.as_strided(tensor, (26,), (4,))[25] = 1
    assert guarded.written_beside(0xFF) == [begin + size + at for at in range(4)]


def test_a_plan_apart_is_one() -> None:
    buffers = [
        Buffer("a", 0, 2, 100),
        Buffer("b", 1, 3, 0),
        Buffer("c", 1, 3, 2 * PAGE),
        Buffer("d", 3, 4, 64, 256),
        Buffer("e", 1, 2, 64, 64, "c", 128),
    ]
    problem = PackingProblem(buffers)
    solution, tensors = solve_apart(problem)
    validate(problem, solution)
    pages = [set(range(start // PAGE, -(-(start + size) // PAGE))) for start, size in tensors]
    assert sum(map(len, pages)) == len(set().union(*pages)) == 4
    assert (solution.offsets["c"] + 2 * PAGE) % PAGE == 0


def _spoiled(change: Callable[[Guarded], None], folder: Path) -> str:
    """Returns the error of a step after a change of its arena."""
    model, options = model_of("digits")
    onnx.save(model, folder / "model.onnx")
    with apart() as plans, guarded_arguments():
        artifact = odtc.compile(folder / "model.onnx", **options)
        session = GuardedSession(plans=plans)
        trainer, (feeds, labels) = artifact.trainer(session, threads=1), fed(artifact)
        trainer.step(feeds, labels, lr=0.01)
        arena = artifact.manifest.plans[0].arena_bytes
        (found,) = [each for each in session.held if each.nbytes == arena]
        assert not session.wrong()
        change(found)
        return session.wrong()


def test_an_arena_is_looked_at(tmp_path: Path) -> None:
    def write_beside(arena: Guarded) -> None:
        place = next(start for start, size in arena.tensors if start % PAGE)
        np.from_dlpack(arena.tensor(place - 64, (64,), "uint8"))[63] = 1

    assert _spoiled(write_beside, tmp_path)
    assert not _spoiled(lambda _: None, tmp_path)
