"""Which tensor of a PyTorch module an initializer of its ONNX export is.

Most initializers keep the name that the module has for them. An exporter that moves a weight, as
into the right factor of a matrix product, gives it a name such as `onnx::MatMul_123`: such a one is
known by its value, which random weights make unique.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class InitializerMatch:
    """An initializer and what it is.

    Attributes:
        state: name in the module's `state_dict`.
        transposed: whether the initializer is the transpose of it.
    """

    state: str
    transposed: bool = False

    def read(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """The initializer's value by the module."""
        return state[self.state].T if self.transposed else state[self.state]


def match_initializers(
    initializers: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]
) -> dict[str, InitializerMatch]:
    """Finds each initializer in the state of the module that was exported.

    Args:
        initializers: the values of the export, by name.
        state: the module's tensors, by their names in its `state_dict`.

    Raises:
        LookupError: an initializer is none of the module's tensors, or may be several; or two
            initializers are the same tensor, so that they would be trained apart.
    """
    found = {name: _match(name, value, state) for name, value in initializers.items()}
    seen: dict[int, str] = {}
    for name, match in found.items():
        tensor = state[match.state].__array_interface__["data"][0]
        if tensor in seen:
            raise LookupError(f"{name} and {seen[tensor]} are both {match.state}")
        seen[tensor] = name
    return found


def _match(name: str, value: np.ndarray, state: Mapping[str, np.ndarray]) -> InitializerMatch:
    if name in state and state[name].shape == value.shape:
        return InitializerMatch(name)
    candidates = [
        InitializerMatch(key, transposed)
        for key, tensor in state.items()
        for transposed in (False, True)
        if _is(value, tensor, transposed)
    ]
    if not candidates:
        raise LookupError(f"initializer {name} {value.shape} is not a tensor of the module")
    if len({match.state for match in candidates}) > 1:
        names = ", ".join(match.state for match in candidates)
        raise LookupError(f"initializer {name} {value.shape} may be any of {names}")
    return candidates[0]


def _is(value: np.ndarray, tensor: np.ndarray, transposed: bool) -> bool:
    if transposed:
        return (
            tensor.ndim == 2 and value.shape == tensor.T.shape and bool((value == tensor.T).all())
        )
    return value.shape == tensor.shape and bool((value == tensor).all())
