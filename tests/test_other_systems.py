"""What macOS or Windows lack is used by modules alone that no host of a phone needs, or with care.

A host sets phones up, compiles for them and trains on them from any system. What of Python's
library not all of them have is read here off the sources, as no test of these systems runs.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("autoschedule", "backends", "frontend", "odtc", "passes", "runtime_rpc")

# Python's documentation says of each for which systems it is.
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = {
    "os": "O_CLOEXEC O_DIRECTORY O_DSYNC O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE "
    "ST_NOEXEC WNOHANG chown chroot copy_file_range environb eventfd fchdir fchmod fchown "
    "fdatasync fork forkpty "
    "fpathconf fstatvfs getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority "
    "getsid getuid killpg lchown lockf memfd_create mkfifo mknod nice openpty pathconf "
    "pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev "
    "readv register_at_fork sched_getaffinity sched_setaffinity sched_setscheduler sched_yield "
    "sendfile set_blocking setegid seteuid setgid setpgid setpriority setsid setuid statvfs sync "
    "sysconf ttyname uname wait wait3 wait4 waitid writev",
    "signal": "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP "
    "SIGUSR1 SIGUSR2 SIGWINCH SIGXCPU alarm getitimer pause pthread_kill pthread_sigmask "
    "setitimer siginterrupt sigpending sigtimedwait sigwait sigwaitinfo",
    "select": "epoll kqueue poll",
    "socket": "AF_NETLINK AF_UNIX SO_PEERCRED SO_REUSEPORT",
    "mmap": "MADV_DONTNEED MADV_SEQUENTIAL MAP_ANONYMOUS MAP_PRIVATE MAP_SHARED PROT_READ "
    "PROT_WRITE",
    "time": "CLOCK_MONOTONIC CLOCK_REALTIME clock_gettime clock_gettime_ns tzset",
}
LISTS = {module: set(names.split()) for module, names in NAMES.items()}
# Of the calls that start a process.
OPTIONS = {"pass_fds", "preexec_fn", "process_group", "umask"}
STARTS = {"Popen", "call", "check_call", "check_output", "run"}

# Modules that a host of phones runs: each asks first, or goes without where there is none.
WITH_CARE = {
    "autoschedule/tuning/record.py": {
        "/proc/cpuinfo",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    },
    "odtc/cli/config/file.py": {"os.getuid"},
    "odtc/cli/interrupts.py": {"signal.SIGHUP", "signal.pthread_sigmask"},
    "odtc/cli/last_resort.py": {"os.set_blocking"},
    "odtc/core/disk/content_store.py": {"os.getuid"},
    "odtc/core/disk/files.py": {"os.ST_NOEXEC", "os.statvfs"},
    "odtc/core/disk/left_behind.py": {"os.O_NOFOLLOW", "os.O_NONBLOCK", "os.getuid"},
    "odtc/core/disk/locks.py": {"fcntl"},
    "odtc/core/disk/mapped_arrays.py": {"mmap.MADV_DONTNEED"},
    "odtc/core/process/trim.py": {"CDLL(None)"},
    "odtc/step_cache/made_by.py": {"/proc/cpuinfo"},
    "runtime_rpc/data/mapped.py": {"mmap.MADV_DONTNEED"},
    "runtime_rpc/free_memory.py": {"/sys/fs/cgroup", "resource"},
    "runtime_rpc/guards/watchdog.py": {"/dev/fd", "/proc/self/fd"},
    "runtime_rpc/loop/features/storage.py": {"os.posix_fallocate"},
    "runtime_rpc/native/binding.py": {"CDLL(None)"},
    "runtime_rpc/server/cores.py": {"os.sched_getaffinity", "os.sched_setaffinity"},
    "runtime_rpc/server/net/bounds.py": {"resource"},
    "runtime_rpc/server/net/wire.py": {"socket.AF_UNIX"},
    "runtime_rpc/tracker/guarded_tracker.py": {"select.poll"},
}
# What runs on Linux alone: steps of this machine, the server in Python, measuring, the stand-in.
ON_LINUX = {
    "autoschedule/tuning/workers.py",
    "odtc/comparison/",
    "runtime_rpc/file_memory.py",
    "runtime_rpc/pages.py",
    "runtime_rpc/server/child.py",
    "runtime_rpc/server/log.py",
    "runtime_rpc/server/measure/",
    "runtime_rpc/server/net/accepting.py",
    "runtime_rpc/server/server.py",
    "runtime_rpc/sessions/local.py",
    "runtime_rpc/sessions/on_core.py",
    "runtime_rpc/standin/",
}


def uses(source: str) -> set[str]:
    """What a source has that not all systems do: modules, names in modules, options, paths."""
    return {found for node in ast.walk(ast.parse(source)) for found in _used(node)}


def _used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (each.name for each in names if each.name in MODULES)
        case ast.ImportFrom(str(module), names):
            if module in MODULES:
                yield module
            known = LISTS.get(module, set())
            yield from (f"{module}.{each.name}" for each in names if each.name in known)
        case ast.Attribute(ast.Name(module), name) if name in LISTS.get(module, ()):
            yield f"{module}.{name}"
        case ast.Call(function, given, options):
            called = getattr(function, "attr", getattr(function, "id", ""))
            if called == "CDLL" and isinstance(given[0], ast.Constant) and given[0].value is None:
                yield "CDLL(None)"
            if called in STARTS:
                yield from (each.arg for each in options if each.arg in OPTIONS)
        case ast.Constant(str(text)) if text.startswith(("/dev/", "/proc/", "/sys/")):
            yield text


@cache
def found() -> dict[str, set[str]]:
    """What each module of the packages uses, by its path."""
    return {
        str(path.relative_to(ROOT)): used
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
        if (used := uses(path.read_text(encoding="utf-8")))
    }


def test_only_these_modules_use_what_some_systems_lack() -> None:
    others = {path: used for path, used in found().items() if not path.startswith(tuple(ON_LINUX))}
    assert others == WITH_CARE


def test_each_that_is_named_does() -> None:
    used = found()
    assert all(any(path.startswith(each) for path in used) for each in ON_LINUX)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import fcntl", {"fcntl"}),
        ("from resource import getrlimit", {"resource"}),
        ("from os import fork, path", {"os.fork"}),
        ("def f(): return os.sched_getaffinity(0)", {"os.sched_getaffinity"}),
        ("c.CDLL(None)", {"CDLL(None)"}),
        ("subprocess.Popen(['a'], pass_fds=(1,), text=True)", {"pass_fds"}),
        ("open('/proc/self/maps')", {"/proc/self/maps"}),
        ("shell('cat /proc/meminfo'); os.kill(1, signal.SIGTERM)", set()),
    ],
)
def test_what_is_read_off_a_source(source: str, expected: set[str]) -> None:
    assert uses(source) == expected
