"""Tests that need something of a machine: in CI they fail where it is not there, and never skip."""

import os
import platform
import shutil
from typing import NoReturn

import pytest


def needs(*found: object, reason: str) -> pytest.MarkDecorator:
    """Skips tests where something was not found; in CI they run all the same, and fail.

    Args:
        found: what was looked for, such as a path or None.
        reason: names what is missing.
    """
    return pytest.mark.skipif("CI" not in os.environ and not all(found), reason=reason)


def needs_x86(reason: str) -> pytest.MarkDecorator:
    """The same of tests whose kernels, or CPUs, are of x86-64."""
    return needs(platform.machine() == "x86_64", reason=reason)


def needs_two_cores() -> pytest.MarkDecorator:
    """The same of tests whose threads are to run on two cores at once."""
    return needs(len(os.sched_getaffinity(0)) > 1, reason="one core for all threads")


def needs_emulated_arm() -> pytest.MarkDecorator:
    """The same of tests of what a compiler makes for 64-bit ARM, under emulation."""
    tools = ("aarch64-linux-gnu-gcc", "qemu-aarch64-static")
    return needs(*map(shutil.which, tools), reason="no compiler for 64-bit ARM, or no emulator")


def lacks(reason: str) -> NoReturn:
    """Skips the test that runs, which has found that something is missing; in CI it fails."""
    if "CI" in os.environ:
        pytest.fail(reason)
    pytest.skip(reason)
