"""The command line of an exporter."""

import sys
from collections.abc import Iterator
from pathlib import Path


def asked() -> Iterator[tuple[str, Path]]:
    """The models that the command line names, and where their files go."""
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        yield name, Path(path)
