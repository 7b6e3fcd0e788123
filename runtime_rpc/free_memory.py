"""Bytes of memory that this process can still take, as Linux and Android say it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

try:
    import resource
except ImportError:
    # Windows, which has no such limit.
    resource: Any = None

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class _Controller(NamedTuple):
    """Where a version of control groups says what a group may take, takes, and could give back."""

    root: str
    most: str
    used: str
    files: str


# By what stands between the colons of `/proc/self/cgroup`.
_CONTROLLERS = {
    "": _Controller("", "memory.max", "memory.current", "inactive_file"),
    "memory": _Controller(
        "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    ),
}


def available_bytes() -> int:
    """The least of what the machine has left, and what control groups and `ulimit -v` leave.

    Raises:
        OSError: the system says nothing of its memory.
    """
    return max(0, min([_field(_PROC / "meminfo", "MemAvailable"), *_groups(), *_addresses()]))


def _field(path: Path, name: str) -> int:
    """A line of `path` such as `MemAvailable:  123 kB`, in bytes."""
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) << 10
    raise OSError(f"{path} says nothing of {name}")


def _groups() -> Iterator[int]:
    """The memory left in this process's control groups, and in those around them."""
    own = _PROC / "self" / "cgroup"
    if not own.exists():
        return
    for line in own.read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        controller = _CONTROLLERS.get(names)
        if controller:
            root = _GROUPS / controller.root
            group = root / path.lstrip("/")
            for each in (group, *group.parents):
                if each.is_relative_to(root):
                    yield from _left_in(each, controller)


def _left_in(group: Path, controller: _Controller) -> Iterator[int]:
    """The memory that a group may still take, with that of files that were not used lately."""
    try:
        most = (group / controller.most).read_text(encoding="ascii").strip()
        if most != "max":
            stat = dict(line.split() for line in _lines(group / "memory.stat"))
            used = int((group / controller.used).read_text(encoding="ascii"))
            yield int(most) - used + int(stat.get(controller.files, 0))
    except FileNotFoundError:
        # The outermost group has no limit, and a container may not see its own.
        return


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines()


def _addresses() -> Iterator[int]:
    """The address space that `ulimit -v` leaves."""
    if not resource:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield limit - _field(_PROC / "self" / "status", "VmSize")
