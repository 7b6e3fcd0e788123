"""Lets work of some seconds do without the collection of garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Does not look for cycles of garbage inside: over some 100,000 nodes that takes a sixth.

    A compile makes hardly any, and looks at all that it holds each time: a twentieth.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
