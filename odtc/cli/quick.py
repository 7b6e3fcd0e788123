"""What a command that answers within seconds does without."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def absent(package: str) -> Iterator[None]:
    """Lets what is imported inside find that a package is not there, unless it is loaded already.

    TVM imports PyTorch where it is installed, to exchange tensors with it. That takes as long as
    the rest of TVM, and 200 MB.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        del sys.modules[package]


@contextmanager
def without_collections() -> Iterator[None]:
    """Does not look for cycles of garbage inside: over some 100,000 nodes that takes a sixth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
