"""Tests that need a program of the system."""

import os

import pytest


def needs(*found: object, reason: str) -> pytest.MarkDecorator:
    """Skips tests where something was not found; in CI they run all the same, and fail.

    Args:
        found: what was looked for, such as a path or None.
        reason: names what is missing.
    """
    return pytest.mark.skipif("CI" not in os.environ and not all(found), reason=reason)
