"""Which of many alike cases the fast tests take; `make test-all` takes all."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

ALL = bool(os.environ.get("ODTC_ALL_TESTS"))


def fast_if(is_fast: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: those that are not fast are marked slow."""
    return [
        value if is_fast(value) else pytest.param(value, marks=pytest.mark.slow) for value in values
    ]


def examples(count: int) -> int:
    """Examples of a property that compiles or plans each: the fast tests draw half of them."""
    return count if ALL else -(-count // 2)
