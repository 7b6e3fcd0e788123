"""A thread of this process on one core, for as long as it computes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from odtc.runtime_rpc.guards.failures import device_errors


@contextmanager
def on_core(core: int, name: str) -> Iterator[None]:
    """The calling thread is bound to a core within the block, whose failures are device errors."""
    with device_errors(name):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)
