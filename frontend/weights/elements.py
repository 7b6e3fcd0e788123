"""The elements of a model's tensors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import onnx

from odtc.core.disk.mapped_arrays import Copies
from odtc.core.errors import ModelError
from odtc.frontend.weights.in_file import add_copy, array_of


def values_of(tensors: Mapping[str, onnx.TensorProto]) -> dict[str, np.ndarray]:
    """The elements of all tensors; memory holds those of large ones as far as they are read.

    Raises:
        ModelError: some are damaged.
    """
    with Copies() as copies:
        for name, tensor in tensors.items():
            with damaged(name):
                add_copy(copies, name, tensor)
        mapped = copies.mapped()
    found = {}
    for name, tensor in tensors.items():
        with damaged(name):
            found[name] = array_of(tensor, mapped.get(name))
    return found


@contextmanager
def damaged(name: str) -> Iterator[None]:
    """A block that reads the elements of an initializer.

    Raises:
        ModelError: they are damaged.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the data of an initializer is damaged: {error}",
            where=f"initializer {name}",
            hint="export the model again, and check that the file was copied whole",
        ) from error
