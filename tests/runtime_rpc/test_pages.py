"""An arena that keeps its pages from plan to plan: what it holds, gives back and asks for."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm import rpc

import odtc
from odtc.artifact import Artifact
from odtc.runtime_rpc.pages import Pages
from odtc.runtime_rpc.remote import RemoteSession
from odtc.runtime_rpc.session import LocalSession, Session
from tests.numeric.test_memory_budget import tower
from tests.runtime_rpc.own_server import serving

MB = 1 << 20
# Huge pages, and what Python does meanwhile.
SLACK = 6 * MB
X, Y = np.ones((4, 8, 224, 224), np.float32), np.arange(4)


def resident_bytes(process: int | str = "self") -> int:
    pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def test_pages_that_stay_keep_what_they_hold() -> None:
    pages = Pages()
    (first,) = pages(64 * MB)
    first.copyfrom(np.full(64 * MB, 7, np.uint8))
    del first
    written = resident_bytes()
    (less,) = pages(16 * MB)
    assert resident_bytes() <= written - 48 * MB + SLACK
    assert less.shape == (16 * MB,)
    (more,) = pages(32 * MB)
    assert resident_bytes() <= written - 48 * MB + SLACK
    found = more.numpy()
    assert found[: 16 * MB].min() == 7
    assert found[16 * MB :].max() == 0


def test_pages_that_there_is_no_room_for() -> None:
    pages = Pages()
    pages(MB)
    with pytest.raises(OSError, match=f"a buffer of {1 << 60} bytes: "):
        pages(1 << 60)
    (again,) = pages(MB)
    assert again.numpy().max() == 0


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A step whose plans lie tens of megabytes apart."""
    path = tmp_path_factory.mktemp("tower") / "m.onnx"
    onnx.save(tower(layers=6, size=224), path)
    return odtc.compile(path, memory_budget="auto")


@contextmanager
def of_odtc(folder: Path) -> Iterator[Session]:
    with serving(folder / "sessions", 30.0) as url:
        session = odtc.connect(url)
        yield session
        session.close()


@contextmanager
def of_tvm(_: Path) -> Iterator[Session]:
    server = rpc.Server("127.0.0.1", 9190, silent=True)
    yield RemoteSession("device", rpc.connect("127.0.0.1", server.port))
    server.terminate()


@contextmanager
def in_its_library(_: Path) -> Iterator[Session]:
    """What a GPU does: the library allocates."""

    class WithoutPages(LocalSession):
        def pages(self) -> None:
            return None

    yield WithoutPages()


@pytest.mark.parametrize("where", [of_odtc, of_tvm, in_its_library])
def test_plans_change_wherever_an_arena_lies(artifact: Artifact, where, tmp_path: Path) -> None:
    plans = artifact.manifest.plans
    order = [*plans, *reversed(plans)]
    here = artifact.trainer()
    expected = [here.step(X, Y, lr=0.1) for _ in order]
    with where(tmp_path) as session:
        there, found = artifact.trainer(session), []
        for plan in order:
            there.set_budget(plan.arena_bytes)
            found.append(there.step(X, Y, lr=0.1))
            assert there.plan == plan
        assert found == expected


@pytest.mark.parametrize("is_local", [True, False])
def test_a_smaller_plan_gives_memory_back_at_once(
    artifact: Artifact, is_local: bool, tmp_path: Path
) -> None:
    large, *_, small = artifact.manifest.plans
    less = large.arena_bytes - small.arena_bytes
    assert less > 10 * SLACK
    with of_odtc(tmp_path) as session:
        process = "self" if is_local else session.info()["pid"]
        trainer = artifact.trainer() if is_local else artifact.trainer(session)
        # The code of both is there, too.
        for plan in (small, large):
            trainer.set_budget(plan.arena_bytes)
            trainer.step(X, Y, lr=0.1)
        before = resident_bytes(process)
        trainer.set_budget(small.arena_bytes)
        assert abs(before - resident_bytes(process) - less) < SLACK
        trainer.step(X, Y, lr=0.1)
        assert resident_bytes(process) < before - less + SLACK
        trainer.set_budget(large.arena_bytes)
        assert resident_bytes(process) < before - less + SLACK
        trainer.step(X, Y, lr=0.1)
        assert abs(resident_bytes(process) - before) < SLACK


def test_a_smaller_plan_asks_for_no_pages(artifact: Artifact) -> None:
    """Its arena is the beginning of what was there: the system has nothing to clear."""
    large, *_, small = artifact.manifest.plans
    trainer = artifact.trainer(threads=1)
    for plan in (small, large):
        trainer.set_budget(plan.arena_bytes)
        trainer.step(X, Y, lr=0.1)
    trainer.set_budget(small.arena_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    trainer.step(X, Y, lr=0.1)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < small.arena_bytes / 4096 / 16
