"""PyTorch's two exporters, with options that keep what training needs.

The TorchScript exporter goes first: it is quick, it keeps dropout and batch normalisation as nodes,
and with constants unfolded an initializer is a parameter or a buffer, under its own name. It has no
node for some operators, such as those behind the masks of today's language models, nor for dropout
between recurrent layers. The exporter by `torch.export` has; it must not optimise, since its
optimiser stores equal tensors once, and folds batch normalisation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx
import torch
from torch import Tensor

from odtc.core.disk.left_behind import temporary_folder
from odtc.frontend.file.inline_functions import inline_functions
from odtc.torch_export.calls import Flat

BATCH = "batch"


@dataclass(frozen=True)
class Request:
    """A request to an exporter.

    Attributes:
        module: flattened, as `calls.Flat` has it.
        tensors: the example inputs, by the name of the input.
        axes: dimension of each input along which the samples lie.
    """

    module: Flat
    tensors: Mapping[str, Tensor]
    axes: Mapping[str, int | None]


def by_torchscript(request: Request) -> onnx.ModelProto:
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
            dynamic_axes={k: {a: BATCH} for k, a in request.axes.items() if a is not None},
        )
        return onnx.load(path)


def by_torch_export(request: Request) -> onnx.ModelProto:
    """The model as the exporter by `torch.export` writes it, not optimised."""
    size = torch.export.Dim(BATCH, min=1, max=1 << 20)
    shapes = tuple({} if a is None else {a: size} for a in request.axes.values())
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
    model = program.model_proto
    return inline_functions(model)


EXPORTERS: dict[str, Callable[[Request], onnx.ModelProto]] = {
    "TorchScript": by_torchscript,
    "torch.export": by_torch_export,
}
