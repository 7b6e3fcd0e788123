"""Reads a state dict from a file of PyTorch or of safetensors; runs nothing of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from safetensors import SafetensorError, safe_open

from odtc.core.disk.files import check_the_path, not_a_file
from odtc.core.errors import MissingPackageError, ModelError, UsageError
from odtc.frontend.weights.fates import Entry

_PICKLED = (".pt", ".pth", ".bin", ".ckpt")
_SAFE = ".safetensors"
# Where training scripts put the state dict in a checkpoint.
_KEYS = ("state_dict", "model_state_dict", "model", "module")


def read_state(path: str | Path) -> dict[str, Entry]:
    """The float tensors of a state dict.

    A file of PyTorch is read with `weights_only=True`, which runs no code of it.

    Args:
        path: a `.safetensors` file, or one that `torch.save` wrote.

    Raises:
        UsageError: the file has another ending, or does not exist.
        MissingPackageError: it is PyTorch's, and PyTorch is not installed.
        ModelError: it is damaged, or holds no state dict.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(
            f"the file of weights {not_a_file(file)}", where=str(file), hint=check_the_path(file)
        )
    if file.suffix == _SAFE:
        return _read_safetensors(file)
    if file.suffix not in _PICKLED:
        raise UsageError(
            f"weights in a file that ends in {file.suffix or 'nothing'!r}",
            where=str(file),
            hint=f"give one that ends in {_SAFE}, or in {', '.join(_PICKLED)} for torch.save's",
        )
    return _read_torch(file)


def _read_safetensors(file: Path) -> dict[str, Entry]:
    try:
        with safe_open(file, framework="numpy") as held:
            values = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise ModelError(
            f"not a readable safetensors file: {error}", where=str(file), hint="write it again"
        ) from error
    return {name: Entry(value) for name, value in values.items() if is_float(value)}


def _read_torch(file: Path) -> dict[str, Entry]:
    try:
        import torch
    except ImportError as error:
        raise MissingPackageError(
            "a file of PyTorch can be read only where PyTorch is installed",
            where=str(file),
            hint="pip install torch, or save the weights with safetensors.torch.save_file",
        ) from error
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ModelError(
            f"torch.load(weights_only=True) does not read it: {str(error).splitlines()[0][:200]}",
            where=str(file),
            hint="save a state dict: torch.save(module.state_dict(), path)",
        ) from error
    tensors = _state_in(held, torch.Tensor, file)
    return {name: entry_of(value) for name, value in tensors.items() if value.is_floating_point()}


def _state_in(held: Any, kind: type, file: Path) -> dict[str, Any]:
    """The tensors of a state dict, or of the one in a checkpoint."""
    candidates = [held]
    if isinstance(held, Mapping):
        candidates += [held[key] for key in _KEYS if key in held]
    for candidate in candidates:
        if isinstance(candidate, Mapping):
            found = {k: v for k, v in candidate.items() if isinstance(v, kind)}
            if found and all(isinstance(name, str) for name in found):
                return found
    raise ModelError(
        "it holds no state dict",
        where=str(file),
        hint=f"save module.state_dict(), by itself or under one of: {', '.join(_KEYS)}",
    )


def entry_of(tensor: Any) -> Entry:
    """A tensor of PyTorch as NumPy's, and what is the same of tied ones: where and how it lies."""
    place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.stride()))
    whole = tensor.detach().cpu().contiguous()
    if "bfloat16" in str(whole.dtype):
        # PyTorch does not convert it to the type that ONNX has for it.
        bfloat16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
        value = whole.float().numpy().astype(bfloat16)
    else:
        value = whole.numpy()
    return Entry(value, (place, tuple(tensor.shape)))


def is_float(value: np.ndarray) -> bool:
    """Whether an array has a type of floating-point numbers that models have."""
    return value.dtype.kind == "f" or value.dtype.name == "bfloat16"
