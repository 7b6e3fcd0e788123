"""Tensors of a safetensors file that any library may have written, as float32."""

import os
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from odtc.core.disk.tensor_file import DamagedError, check_hashes
from odtc.core.errors import ArtifactError


def stored_tensors(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """What a file says of itself, and its tensors by name; half precision is widened.

    Raises:
        ArtifactError: the file is missing or damaged.
    """
    import ml_dtypes  # noqa: F401  # NumPy knows bfloat16 by it; ONNX brings it

    if not os.path.isfile(path):
        raise ArtifactError("the adapters do not exist", where=str(path), hint="check the path")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            stored = {name: _widened(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        check_hashes(path, metadata)
    except (SafetensorError, DamagedError, OSError, ValueError, TypeError) as error:
        raise ArtifactError(
            f"the adapters are damaged ({error})",
            where=str(path),
            hint="use adapters of the same model, rank and targets",
        ) from error
    return metadata, stored


def _widened(array: np.ndarray) -> np.ndarray:
    is_half = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
    return array.astype(np.float32) if is_half else array
