"""Python as hosts without POSIX have it: found and run by each process whose path has this folder.

What only POSIX has is not to be found, files are inherited by no process, no folder lists those
that are open, no library is all of a process, and locks are Windows'. What cannot be tried in this
way is read in `tests/test_other_systems.py`.
"""

import builtins
import ctypes
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import types
from typing import Any

_OF_POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}
_POPEN = subprocess.Popen.__init__
_flock, _exclusive = fcntl.flock, fcntl.LOCK_EX


def _start(self: subprocess.Popen[bytes], *words: Any, **options: Any) -> None:
    inherited = {"pass_fds", "preexec_fn"} & options.keys()
    if inherited:
        raise ValueError(f"{inherited} is not supported on Windows platforms")
    options.pop("creationflags", None)
    _POPEN(self, *words, **options)


def _lock(file: int, mode: int, count: int) -> None:
    _flock(file, _exclusive)


subprocess.Popen.__init__ = _start  # pyright: ignore[reportAttributeAccessIssue]
subprocess.DETACHED_PROCESS = 8  # pyright: ignore[reportAttributeAccessIssue]

_import = builtins.__import__


def _imported(name: str, globals: Any = None, *words: Any, **others: Any) -> Any:
    scope = globals or {}
    if name in _OF_POSIX and scope.get("__name__", "").startswith("odtc"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, globals, *words, **others)


# Other packages go by the system's name.
builtins.__import__ = _imported
# Windows cannot make a pipe that does not block, and does not ask for one.
_set_blocking, _set_wakeup = os.set_blocking, signal.set_wakeup_fd


def _wake_up(file: int, **options: Any) -> int:
    if file >= 0:
        _set_blocking(file, False)
    return _set_wakeup(file, **options)


signal.set_wakeup_fd = _wake_up  # pyright: ignore[reportAttributeAccessIssue]
_listdir = os.listdir


def _listed(path: Any = ".") -> list[Any]:
    if str(path) in ("/proc/self/fd", "/dev/fd"):
        raise FileNotFoundError(path)
    return _listdir(path)


os.listdir = _listed
_open_library = ctypes.CDLL.__init__


def _opened(self: ctypes.CDLL, name: Any, *words: Any, **options: Any) -> None:
    # There is no list of the symbols of all libraries.
    if name is None and sys._getframe(1).f_globals.get("__name__", "").startswith("odtc"):
        raise TypeError("argument of type 'NoneType' is not iterable")
    _open_library(self, name, *words, **options)


ctypes.CDLL.__init__ = _opened  # pyright: ignore[reportAttributeAccessIssue]
# Windows has this by other means.
_statvfs = os.statvfs


def _disk_usage(path: Any) -> Any:
    found = _statvfs(path)
    return types.SimpleNamespace(free=found.f_bavail * found.f_frsize)


shutil.disk_usage = _disk_usage
windows: Any = types.ModuleType("msvcrt")
windows.LK_LOCK, windows.locking = 1, _lock
sys.modules["msvcrt"] = windows
for place, names in {
    os: "O_NOFOLLOW O_NONBLOCK execv fork getuid geteuid killpg posix_fallocate pread "
    "register_at_fork statvfs sched_getaffinity sched_setaffinity setsid sysconf set_blocking",
    select: "poll",
    signal: "SIGHUP SIGKILL SIGCHLD",
}.items():
    for name in names.split():
        delattr(place, name)
