"""Which of many alike cases the fast tests take; `make test-all` takes all."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

ALL = bool(os.environ.get("ODTC_ALL_TESTS"))


def fast_if(is_fast: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: those that are not fast are marked slow.

    Raises:
        ValueError: none is fast, or all are.
    """
    told = [(value, bool(is_fast(value))) for value in values]
    if len({fast for _, fast in told}) != 2:
        raise ValueError(f"of {[value for value, _ in told]} none is fast, or all are")
    return [value if fast else pytest.param(value, marks=pytest.mark.slow) for value, fast in told]


def examples(count: int) -> int:
    """Examples of a property that compiles or plans each: the fast tests draw half of them."""
    return count if ALL else -(-count // 2)
