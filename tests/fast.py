"""Which of many alike cases the fast tests take; `make test-all` takes all."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def fast_if(is_fast: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: those that are not fast are marked slow."""
    return [
        value if is_fast(value) else pytest.param(value, marks=pytest.mark.slow) for value in values
    ]
