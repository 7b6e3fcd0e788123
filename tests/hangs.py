"""A test that hangs says where, and ends; the others go on.

pytest-timeout raises an error in Python's main thread. It never comes while that thread waits in C,
and it may be caught: Hypothesis runs the example again, and a block waits on its way out for what
hangs. Then a thread of C, which needs nothing of Python, prints where all threads are, and ends the
process.
"""

import faulthandler
import os
from collections.abc import Generator
from typing import Any

import pytest

# Behind pytest-timeout, whose error leaves the process to the other tests.
LATER_SECONDS = 120.0


class Watch:
    """Ends the process of a test that takes longer than pytest-timeout allows, and a while more.

    Args:
        config: of pytest.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._usual = float(config.getoption("timeout", None) or 0)
        # The process's own: what tests print is captured.
        self._stderr = os.dup(2)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watches a test from its first fixture to its last."""
        self._begin(item)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Watches on: pytest has ended that where the test failed."""
        self._begin(item)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Lets no other process run what ended one."""
        from tests.once import Once

        return Once(config, log) if config.getvalue("dist") == "loadfile" else None

    def _begin(self, item: pytest.Item) -> None:
        mark = item.get_closest_marker("timeout")
        seconds = float(mark.args[0]) if mark and mark.args else self._usual
        if seconds:
            faulthandler.dump_traceback_later(seconds + LATER_SECONDS, exit=True, file=self._stderr)
