"""Which plan a step runs by, while the memory that is left goes up and down."""

import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.core.artifact.manifest import StepPlan
from odtc.core.errors import UsageError
from odtc.runtime_rpc import free_memory
from odtc.runtime_rpc.free_memory import available_bytes
from odtc.runtime_rpc.memory.plans import PATIENCE, Follower, bytes_left, smaller_plan

PLANS = [StepPlan(f"step_{size}", size, 1000 / size) for size in (1000, 700, 500, 300)]
RESERVE = 50


def followed(left: list[int]) -> list[StepPlan]:
    """The plans of steps before each of which so many bytes would be left without an arena."""
    rooms = iter(left)
    plan, held, found = PLANS[0], 0, []
    follower = Follower(PLANS, lambda: next(rooms) - held, RESERVE)
    for _ in left:
        plan = follower.choose(plan, held)
        held = plan.arena_bytes
        found.append(plan)
    return found


@given(st.lists(st.integers(0, 1500), min_size=1, max_size=60))
def test_a_plan_fits_or_is_the_smallest(left: list[int]) -> None:
    for each, plan in zip(left, followed(left), strict=True):
        assert plan.arena_bytes <= each - RESERVE or plan == PLANS[-1]


def test_the_fastest_is_kept_while_it_fits() -> None:
    assert followed([1050] * 5) == [PLANS[0]] * 5
    assert followed([1049] * 5) == [PLANS[1]] * 5


def test_a_faster_plan_waits_until_there_was_room_for_some_steps() -> None:
    found = followed([600, *[5000] * (PATIENCE + 1)])
    assert found == [PLANS[2]] * PATIENCE + [PLANS[0]] * 2


def test_memory_that_goes_up_and_down_a_little_changes_nothing() -> None:
    found = followed([640, 760, 740, 780, 760] * 8)
    assert found == [PLANS[2]] * 40


@pytest.mark.parametrize("left", ["5", None, float("nan"), float("inf"), [5]])
def test_what_is_no_number_of_bytes(left: object) -> None:
    follower = Follower(PLANS, lambda: left, RESERVE)  # type: ignore[arg-type,return-value]
    with pytest.raises(UsageError) as caught:
        follower.choose(PLANS[0], 0)
    assert str(caught.value).startswith(
        f"the function for the memory that is left gives {left!r}, not a number of bytes\n"
    )


@pytest.mark.parametrize("left", [1050, 1050.9, np.int64(1050), np.float32(1050)])
def test_what_is_one(left: int) -> None:
    assert bytes_left(lambda: left) == 1050


@pytest.mark.parametrize(("number", "next_one"), [(0, 1), (2, 3)])
def test_smaller_plans(number: int, next_one: int) -> None:
    assert smaller_plan(PLANS, PLANS[number]) == PLANS[next_one]


def test_the_smallest_plan_has_no_smaller_one() -> None:
    assert smaller_plan(PLANS, PLANS[-1]) is None


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 64 MiB left, whose files a test may add to."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    groups.mkdir()
    (proc / "meminfo").write_text("MemTotal: 131072 kB\nMemAvailable:   65536 kB\n")
    monkeypatch.setattr(free_memory, "_PROC", proc)
    monkeypatch.setattr(free_memory, "_GROUPS", groups)
    return tmp_path


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"memory.{name}").write_text(f"{content}\n")


def test_what_the_machine_has_left(system: Path) -> None:
    assert available_bytes() == 64 << 20


@pytest.mark.parametrize(
    ("line", "root", "names", "files"),
    [
        ("0::/a/b", "cgroup", ("max", "current"), "inactive_file"),
        (
            "9:cpu:/\n4:memory:/a/b",
            "cgroup/memory",
            ("limit_in_bytes", "usage_in_bytes"),
            "total_inactive_file",
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_what_control_groups_leave(
    system: Path, line: str, root: str, names: tuple[str, str], files: str
) -> None:
    most, used = names
    (system / "proc/self/cgroup").write_text(f"{line}\n")
    own = system / root / "a" / "b"
    write(own, **{most: 9000, used: 5000, "stat": f"anon 1\n{files} 700"})
    assert available_bytes() == 4700
    write(own.parent, **{most: 6000, used: 5000, "stat": "anon 1"})
    assert available_bytes() == 1000
    write(own.parent, **{used: 7000})
    assert available_bytes() == 0


def test_a_group_without_a_limit(system: Path) -> None:
    (system / "proc/self/cgroup").write_text("0::/a\n")
    write(system / "cgroup" / "a", max="max", current=5000, stat="anon 1")
    assert available_bytes() == 64 << 20


def test_what_ulimit_leaves(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "proc/self/status").write_text("VmPeak:\t 9 kB\nVmSize:\t 4 kB\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10 << 10, 10 << 10))
    assert available_bytes() == 6 << 10
