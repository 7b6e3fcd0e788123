"""`odtc.match_weights`: what became of a module's weights in an ONNX file."""

import os
from collections.abc import Mapping
from typing import Any

from odtc.core.options.arguments import takes
from odtc.core.options.kinds import ANYTHING, PATH, either, mapping
from odtc.driver.options.kinds import MODEL
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.weights.fates import Entry, Match
from odtc.frontend.weights.matching import match
from odtc.runtime_rpc.feed.arrays import as_array
from odtc.weight_files import entry_of, is_float, read_state

_WEIGHTS = either(
    PATH,
    mapping(ANYTHING, "dictionary", ""),
    hint="give the path of a file of weights, or arrays by name: module.state_dict()",
)


@takes("odtc.match_weights", model=MODEL, weights=_WEIGHTS)
def match_weights(
    model: str | os.PathLike[str], weights: str | os.PathLike[str] | Mapping[str, Any]
) -> list[Match]:
    """Compares the float tensors of an ONNX file with a state dict, by name and by value.

    If odtc splits or rearranges tensors when it reads a file, the results are compared.

    Args:
        model: path of the ONNX file.
        weights: the state dict: a `.safetensors` file, a file written by `torch.save`, or arrays or
            PyTorch tensors by name.

    Returns:
        What became of each tensor of the state dict, and which other parameters the file has. A
        tensor is `equal`, exactly or up to rounding, `tied`, `renamed`, `reshaped`, of another
        type, or lost: `merged`, `torn apart`, `folded`, `different`, `missing`.

    Raises:
        OdtcError: a file cannot be read.
    """
    if isinstance(weights, Mapping):
        entries = {name: _entry(value, name) for name, value in weights.items()}
        state = {name: entry for name, entry in entries.items() if is_float(entry.value)}
    else:
        state = read_state(os.fspath(weights))
    return match(load_model(model), state)


def _entry(value: Any, name: str) -> Entry:
    if hasattr(value, "untyped_storage"):
        return entry_of(value)
    return Entry(as_array(value, f"weights[{name!r}]"))
