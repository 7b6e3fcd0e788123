"""Runs an exported file and its module, and compares the results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import ModelError
from odtc.core.onnx_model.inference_form import random_nodes, to_inference
from odtc.core.onnx_model.placed_weights import PlacedModel
from odtc.runtime_rpc.export.engine import load_engine
from odtc.torch_export.calls import ExampleCall, named_tensors
from odtc.torch_export.watching.kept import in_eval
from odtc.torch_export.weights import array_of

# Tolerance relative to an output's largest element: allows another order of sums only.
_TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 1e-2, torch.float32: 1e-3, torch.float64: 1e-5}
# Elements that are compared at a time.
_AT_ONCE = 1 << 20


def results(module: nn.Module, call: ExampleCall) -> dict[str, Tensor]:
    """Runs a module in inference mode and returns its outputs by name.

    PyTorch's fast path of attention is off: of queries whose keys are all masked it gives NaN,
    where the module gives numbers while it trains, and in inference with gradients.
    """
    with in_eval(module), torch.no_grad(), _without_fast_path():
        return named_tensors(module(*call.args, **call.kwargs), "output")


@contextmanager
def _without_fast_path() -> Iterator[None]:
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


def compare(
    placed: PlacedModel,
    calls: Sequence[ExampleCall],
    expected: Sequence[Mapping[str, Tensor]],
    kinds: Iterable[torch.dtype],
) -> None:
    """Checks that the file computes what the module does, in inference mode.

    Args:
        placed: the model in training form.
        calls: the inputs, with different numbers of samples.
        expected: what the module returns of each, in the order of the file's outputs. A module
            that returns more while it trains has only its first output here.
        kinds: types that the module computes in, on the way to outputs of finer ones, too.

    Raises:
        ModelError: an output differs, or nothing runs the file.
    """
    graph = placed.model.graph
    names = [value.name for value in graph.output]
    fed = {value.name for value in graph.input}
    with temporary_folder() as folder:
        path = folder / "inference.onnx"
        _write_inference(placed, path)
        engine, reasons = load_engine(path, is_frugal=True)
        if engine is None:
            raise ModelError(f"nothing runs the file: {'; '.join(reasons)}")
        for call, wanted in zip(calls, expected, strict=True):
            found = engine.run({k: array_of(t) for k, t in call.tensors.items() if k in fed})
            count = len(names) if len(wanted) == len(names) else 1
            for name, tensor in zip(names[:count], wanted.values(), strict=False):
                _check(name, found[name], array_of(tensor), _bound(tensor.dtype, kinds))


def _write_inference(placed: PlacedModel, path: Path) -> None:
    """Writes the inference form."""
    inferring = onnx.ModelProto()
    inferring.CopyFrom(placed.model)
    to_inference(inferring)
    if drawn := random_nodes(inferring):
        raise ModelError(f"the file draws random numbers in inference, too: {', '.join(drawn)}")
    placed.write_beside(path, inferring)


def _bound(kind: torch.dtype, kinds: Iterable[torch.dtype]) -> float:
    """The tolerance of an output: the rounding of the coarsest type; 0 for whole numbers."""
    if not kind.is_floating_point:
        return 0.0
    return max(_TOLERANCE.get(each, 0.0) for each in {kind, *kinds})


def _check(name: str, found: np.ndarray, expected: np.ndarray, bound: float) -> None:
    if found.shape != expected.shape:
        raise ModelError(
            f"output {name!r} is {list(found.shape)} in the file and {list(expected.shape)} in the "
            "module: the file is of one number of samples, or of one mode"
        )
    if expected.dtype.kind in "biu":
        worst = float(np.max(found != expected, initial=0))
    else:
        largest = (np.abs(part[np.isfinite(part)]).max(initial=0.0) for part in _parts(expected))
        scale = max(1e-6, *largest, 0.0)
        pairs = zip(_parts(found), _parts(expected), strict=True)
        worst = max((_apart(*pair) for pair in pairs), default=0.0) / scale
    if worst > bound:
        raise ModelError(
            f"output {name!r} of the file differs from the module's by {worst:.2g} of its largest "
            "element, in inference mode"
        )


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """The elements in float64, some at a time: those of logits would take more than a model."""
    flat = array.reshape(-1)
    for begin in range(0, flat.size, _AT_ONCE):
        yield flat[begin : begin + _AT_ONCE].astype(np.float64)


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two elements; infinite where one alone is no number."""
    apart = np.where(one == other, 0.0, np.abs(one - other))
    apart[np.isnan(one) & np.isnan(other)] = 0.0
    return float(np.max(np.nan_to_num(apart, nan=np.inf), initial=0.0))
