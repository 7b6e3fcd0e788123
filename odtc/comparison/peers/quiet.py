"""Silences libraries that write to file descriptors and ignore Python's settings."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def written_to(file: Path, *descriptors: int) -> Iterator[None]:
    """Redirects file descriptors, such as 2, to a file within the block.

    Args:
        file: is created or overwritten.
        descriptors: of standard output (1) or standard error (2).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {descriptor: os.dup(descriptor) for descriptor in descriptors}
    try:
        with file.open("wb") as log:
            for descriptor in descriptors:
                os.dup2(log.fileno(), descriptor)
        yield
    finally:
        sys.stdout.flush()
        for descriptor, copy in saved.items():
            os.dup2(copy, descriptor)
            os.close(copy)
