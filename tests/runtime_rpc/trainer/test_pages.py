"""An arena that keeps its pages from plan to plan: what it holds, gives back and asks for."""

import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from tvm import rpc

import odtc
from benchmarks.memory.tvm_planner import IgnoreArena
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.artifact import Artifact
from odtc.backends import lowering
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.guards.failures import SMALLER
from odtc.runtime_rpc.pages import Pages
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.remote import RemoteSession
from odtc.runtime_rpc.sessions.session import Session
from tests.fast import fast_if
from tests.numeric.plans.test_memory_budget import tower
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


def test_pages_are_huge_where_there_are_such() -> None:
    has_huge = Path("/sys/kernel/mm/transparent_hugepage/enabled").exists()
    (tensor,) = (pages := Pages())(4 * MB)
    address = tensor.data_ptr()
    maps = Path("/proc/self/smaps").read_text(encoding="ascii")
    ranges = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: (.*?)$", maps, re.M | re.S)
    (flags,) = (f for begin, end, f in ranges if int(begin, 16) <= address < int(end, 16))
    assert ("hg" in flags.split()) == has_huge
    del tensor, pages


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tower") / "m.onnx"
    onnx.save(tower(layers=6, size=224), path)
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> Artifact:
    """A step whose plans lie tens of megabytes apart."""
    return odtc.compile(model, memory_budget="auto")


@pytest.fixture(scope="module")
def of_one_plan(model: Path) -> Artifact:
    return odtc.compile(model)


@pytest.fixture(scope="module")
def allocating(model: Path) -> Artifact:
    """The same step, which does not use the arena that it is given but allocates one."""
    with patch.object(lowering, "TakeArena", IgnoreArena):
        return odtc.compile(model)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "sessions", 30.0) as running:
        yield running


@contextmanager
def of_odtc(url: str) -> Iterator[Session]:
    session = odtc.connect(url)
    yield session
    session.close()


@contextmanager
def of_tvm(_: str) -> Iterator[Session]:
    server = rpc.Server("127.0.0.1", 9190, silent=True)
    yield RemoteSession("device", rpc.connect("127.0.0.1", server.port))
    server.terminate()


@contextmanager
def in_its_library(_: str) -> Iterator[Session]:
    """Lets the library allocate, as on a GPU."""

    class WithoutPages(VirtualMachineHere):
        def pages(self) -> None:
            return None

    yield WithoutPages()


WHERE = pytest.mark.parametrize(
    "where", fast_if(lambda where: where is of_odtc, [of_odtc, of_tvm, in_its_library])
)


@WHERE
def test_plans_change_wherever_an_arena_lies(artifact: Artifact, where, url: str) -> None:
    plans = artifact.manifest.plans
    order = [*plans, *reversed(plans)]
    here = artifact.trainer()
    expected = [here.step(X, Y, lr=0.1) for _ in order]
    with where(url) as session:
        there, found = artifact.trainer(session), []
        for plan in order:
            there.set_budget(plan.arena_bytes)
            found.append(there.step(X, Y, lr=0.1))
            assert there.plan == plan
        assert found == expected


def trained(artifact: Artifact, session: Session) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of three steps, and the parameters then."""
    trainer = artifact.trainer(session)
    return [trainer.step(X, Y, lr=0.1) for _ in range(3)], trainer.parameters()


@WHERE
def test_it_does_not_matter_where_an_arena_lies(
    of_one_plan: Artifact, allocating: Artifact, where, url: str
) -> None:
    losses, parameters = trained(allocating, LocalSession())
    with where(url) as session:
        for place in (session, LocalSession()):
            found, changed = trained(of_one_plan, place)
            assert found == losses
            assert changed.keys() == parameters.keys()
            assert all(np.array_equal(changed[name], parameters[name]) for name in parameters)


@pytest.mark.parametrize("is_local", [True, False])
def test_no_memory_for_the_arena_of_the_only_plan(
    of_one_plan: Artifact, is_local: bool, url: str
) -> None:
    def too_many(pages: Callable[[int], Any] | None) -> Callable[[int], Any]:
        assert pages
        return lambda _: pages(1 << 60)

    class Here(VirtualMachineHere):
        def pages(self) -> Callable[[int], Any]:
            return too_many(super().pages())

    class There(RemoteSession):
        def pages(self) -> Callable[[int], Any]:
            return too_many(super().pages())

    with of_odtc(url) as session:
        assert isinstance(session, RemoteSession)
        place = Here() if is_local else There(session.name, session.remote)
        trainer = of_one_plan.trainer(place)
        with pytest.raises(DeviceError) as caught:
            trainer.step(X, Y, lr=0.1)
    arena = of_one_plan.memory.arena_bytes
    assert str(caught.value) == (
        f"there is no memory for a step's arena of {arena:,} bytes: Cannot allocate memory\n"
        f"  where: {place.name}\n"
        f"  hint: {SMALLER}; a budget of auto has several plans"
    )


def test_an_arena_goes_with_its_trainer(of_one_plan: Artifact) -> None:
    trainer = of_one_plan.trainer(threads=1)
    trainer.step(X, Y, lr=0.1)
    held = resident_bytes()
    arguments = sum(item.spec.nbytes for item in of_one_plan.manifest.arguments)
    del trainer
    gone = held - resident_bytes()
    assert abs(gone - of_one_plan.memory.arena_bytes - arguments) < SLACK


@pytest.mark.parametrize("is_local", [True, False])
def test_a_smaller_plan_gives_memory_back_at_once(
    artifact: Artifact, is_local: bool, url: str
) -> None:
    large, *_, small = artifact.manifest.plans
    less = large.arena_bytes - small.arena_bytes
    assert less > 10 * SLACK
    with of_odtc(url) as session:
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
