"""Undoes, in a model that was just read, what its exporter did to parameters; see the package."""

import onnx

from odtc.frontend.weights.exporters.exported import separate_exported
from odtc.frontend.weights.exporters.own_metadata import KEY
from odtc.frontend.weights.exporters.scripted import PRODUCER, separate_scripted
from odtc.frontend.weights.exporters.torch_metadata import read_torch_metadata
from odtc.frontend.weights.shadowed import rename_shadowed


def restore(model: onnx.ModelProto) -> None:
    """Gives each parameter a tensor of its own where the file shows that it was one, in place.

    What the model computes stays the same.

    Raises:
        ModelError: the data of an initializer is damaged.
    """
    if any(pair.key == KEY for pair in model.metadata_props):
        return
    torch = read_torch_metadata(model)
    if torch.entries:
        separate_exported(model, torch)
    elif model.producer_name == PRODUCER:
        separate_scripted(model)


def untangle_names(model: onnx.ModelProto) -> None:
    """Mends names that PyTorch's exporter gave twice, in place, so that the file can be checked."""
    torch = read_torch_metadata(model)
    if torch.entries:
        rename_shadowed(model, torch)
