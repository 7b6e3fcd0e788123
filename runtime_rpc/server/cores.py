"""The cores of this process's device, and the pool of TVM's threads bound to some of them."""

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

# A mode of `runtime.config_threadpool`: one core to a thread, of a list.
_ONE_CORE_EACH = -2
# Linux's; a client of a device may have another system.
_CAN_BIND = hasattr(os, "sched_setaffinity")
# Taken before TVM binds a thread of this process.
_EVERYWHERE = frozenset(os.sched_getaffinity(0) if _CAN_BIND else range(os.cpu_count() or 1))


def core_speeds(root: str = "/") -> dict[int, int]:
    """The highest frequency of each core that this process may use, in kHz; 0 where it is unknown.

    Args:
        root: of `/sys`.
    """
    speeds = dict.fromkeys(sorted(_EVERYWHERE), 0)
    for core in speeds:
        path = Path(root, f"sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq")
        with suppress(OSError, ValueError):
            speeds[core] = int(path.read_text(encoding="ascii"))
    return speeds


def use_cores(cores: Sequence[int], *, bind_caller: bool) -> None:
    """Gives TVM's pool one thread for each core, and binds it there.

    The calling thread takes part as the first of them; the pool is its own.

    Args:
        cores: numbers of some that `core_speeds` has.
        bind_caller: to the first core; TVM binds it to all of them.
    """
    import tvm

    # TVM's pool is made once, on x86 for half of the logical cores.
    os.environ.setdefault("TVM_NUM_THREADS", str(len(_EVERYWHERE)))
    # Made now: a list of cores would make it as large as the list.
    tvm.get_global_func("runtime.NumThreads")()
    # Idle threads have to be in the list as well: with fewer, TVM lets all threads share it.
    size = max(int(os.environ["TVM_NUM_THREADS"]), len(_EVERYWHERE), len(cores))
    everyone = [str(core) for core in islice(cycle(cores), size)]
    tvm.get_global_func("runtime.config_threadpool")(_ONE_CORE_EACH, len(cores), everyone)
    if bind_caller:
        os.sched_setaffinity(0, cores[:1])


def unbind() -> None:
    """Lets the calling thread run on any core; it is born bound as the thread that starts it."""
    with suppress(OSError):
        if _CAN_BIND:
            os.sched_setaffinity(0, _EVERYWHERE)
