"""PyTorch's two exporters, with options that keep what training needs.

The TorchScript exporter goes first: it is quick, it keeps dropout and batch normalisation as nodes,
and with constants unfolded an initializer is a parameter or a buffer, under its own name. It has no
node for some operators, such as those behind the masks of today's language models, nor for dropout
between recurrent layers. The exporter by `torch.export` has; it must not optimise, since its
optimiser stores equal tensors once, and folds batch normalisation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor

from odtc.core.disk.left_behind import temporary_folder
from odtc.core.onnx_model.placed_weights import PlacedModel, place_of
from odtc.frontend.file.inline_functions import inline_functions
from odtc.frontend.weights import in_file
from odtc.torch_export.calls import Flat
from odtc.torch_export.watching.kept import state_tensors
from odtc.torch_export.weights import array_of, same_elements

BATCH, LENGTH = "batch", "length"
# Bytes of a weight that stays in the module: all that are smaller together are not much.
_LARGE = 1 << 16


@dataclass(frozen=True)
class Request:
    """A request to an exporter.

    Attributes:
        module: flattened, as `calls.Flat` has it.
        tensors: the example inputs, by the name of the input.
        axes: dimension of each input along which the samples lie.
        lengths: the same of a length that is left open.
    """

    module: Flat
    tensors: Mapping[str, Tensor]
    axes: Mapping[str, int | None]
    lengths: Mapping[str, int | None]

    def open_axes(self, batch: Any, length: Any) -> dict[str, dict[int, Any]]:
        """What stands for the samples and for the length, by dimension, of each input."""
        kinds = (self.axes, batch), (self.lengths, length)
        return {
            name: {axis: what for axes, what in kinds if (axis := axes[name]) is not None}
            for name in self.tensors
        }


def by_torchscript(request: Request) -> PlacedModel:
    """The model as the TorchScript exporter writes it, in the module's modes."""
    with temporary_folder() as folder:
        # Above 2 GB the exporter puts weights into files of their own.
        path = folder / "model.onnx"
        torch.onnx.export(
            request.module,
            tuple(request.tensors.values()),
            path,
            dynamo=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            input_names=list(request.tensors),
            dynamic_axes=request.open_axes(BATCH, LENGTH),
        )
        placed, own = PlacedModel(in_file.read_in_file(path)), state_tensors(request.module)
        for tensor in placed.model.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            found, weight = in_file.array_of(tensor), own.get(tensor.name)
            # What the exporter has changed is what it is; see `weights.complete`.
            is_same = weight is not None and same_elements(found, array_of(weight))
            placed.place(tensor, array_of(weight) if weight is not None and is_same else found)
        return placed


def by_torch_export(request: Request) -> PlacedModel:
    """The model as the exporter by `torch.export` writes it, not optimised."""
    size = torch.export.Dim(BATCH, min=1, max=1 << 20)
    # Of a length the module says what it may be: it may have no more places.
    shapes = tuple(request.open_axes(size, torch.export.Dim.DYNAMIC).values())
    program = torch.onnx.export(
        request.module,
        tuple(request.tensors.values()),
        dynamo=True,
        optimize=False,
        verbose=False,
        input_names=list(request.tensors),
        dynamic_shapes={"tensors": shapes},
    )
    assert program is not None
    weights = _left_in_module(program, request)
    return PlacedModel(inline_functions(program.model_proto), weights)


def _left_in_module(program: "torch.onnx.ONNXProgram", request: Request) -> dict[str, np.ndarray]:
    """Takes large weights of a module out of an exporter's model, and returns them by name."""
    from onnx_ir import serde

    own = {tensor.data_ptr(): tensor for tensor in state_tensors(request.module).values()}
    weights = {}
    for name, value in program.model.graph.initializers.items():
        held: Any = value.const_value
        raw = getattr(held, "raw", None)
        if not isinstance(raw, Tensor) or raw.nbytes < _LARGE:
            continue
        weight = own.get(raw.data_ptr())
        if weight is None or (weight.shape, weight.dtype) != (raw.shape, raw.dtype):
            continue
        weights[name] = array_of(weight)
        place = place_of(name, list(raw.shape), int(held.dtype))
        value.const_value = serde.deserialize_tensor(place)
    return weights


EXPORTERS: dict[str, Callable[[Request], PlacedModel]] = {
    "TorchScript": by_torchscript,
    "torch.export": by_torch_export,
}
