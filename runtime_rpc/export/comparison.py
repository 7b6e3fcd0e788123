"""Differences of a file's outputs from those of `evaluate`, and their tolerances."""

from collections.abc import Collection

import numpy as np
import onnx

from odtc.core.artifact.manifest import Manifest
from odtc.core.ir.place import Place, take
from odtc.core.onnx_model.weight_places import bodies_of, float_tensors

# Of the largest element. Sums in another order differ by 2e-5 in deep models; statistics of the
# batch, live dropout, or another weight by more than 1e-3.
_FLOAT32 = 1e-4
# A value rounded to so many bits is off by its last one, and by several after some layers.
_ROUNDED: dict[int, float] = {onnx.TensorProto.FLOAT16: 2e-2, onnx.TensorProto.BFLOAT16: 1e-1}
_MIXED = 2e-2
_LEAST_SCALE = 1e-6
# Onnxruntime's Sigmoid is right to 1e-7 in all, not of a small value: of -15 it is off by a sixth,
# and below -18 it is 0.
_LEAST_SCALE_OF_SIGMOID = 1e-2
_LAYING_OUT = frozenset("Cast Flatten Identity Reshape Slice Squeeze Transpose Unsqueeze".split())
_CLOSING = ("LogSoftmax", "Sigmoid", "Softmax")


def tolerance_of(model: onnx.ModelProto, manifest: Manifest) -> float:
    """The largest difference that rounding explains, by the file's types and the step's."""
    types = {tensor.data_type for _, tensor in float_tensors(model.graph)} | _casts(model.graph)
    types |= {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    mixed = _MIXED if manifest.precision == "mixed" else _FLOAT32
    return max(mixed, *(_ROUNDED.get(each, 0.0) for each in types))


def _casts(graph: onnx.GraphProto) -> set[int]:
    """The types that nodes cast to, in bodies too."""
    found = {item.i for node in graph.node for item in node.attribute if item.name == "to"}
    return found.union(*(_casts(body) for node in graph.node for body in bodies_of(node)))


def difference(found: np.ndarray, expected: np.ndarray, least: float = _LEAST_SCALE) -> float:
    """The largest difference of two arrays, over the largest element expected, at least `least`.

    Infinite where they have other shapes, or an element is finite in one of them only.
    """
    if found.shape != expected.shape:
        return float("inf")
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(expected[finite]).max()), least)
    return float(np.abs(found[finite] - expected[finite]).max()) / scale


def in_front(graph: onnx.GraphProto, output: str) -> str:
    """The tensor in front of the activation that closes an output; empty where there is none.

    A loss that has the activation inside trains on, and evaluates to, that tensor. The activation
    hides differences where it saturates.
    """
    # A file in float16 may give its outputs in float32.
    last = _maker(graph, output, {"Cast"})
    return last.input[0] if last is not None and last.op_type in _CLOSING else ""


def least_scale(graph: onnx.GraphProto, output: str) -> float:
    """Returns the lower bound of the scale by which an output's differences are divided."""
    last = _maker(graph, output, _LAYING_OUT)
    is_sigmoid = last is not None and last.op_type == "Sigmoid"
    return _LEAST_SCALE_OF_SIGMOID if is_sigmoid else _LEAST_SCALE


def _maker(graph: onnx.GraphProto, output: str, passed: Collection[str]) -> onnx.NodeProto | None:
    """The node that computes an output, looking through some operators."""
    made = {name: node for node in graph.node for name in node.output}
    last = made.get(output)
    while last is not None and last.op_type in passed:
        last = made.get(last.input[0])
    return last


def samples_of(
    expected: np.ndarray, shape: tuple[int, ...], have: int, want: int, place: Place | None
) -> np.ndarray:
    """An output of so many samples, from the same of others.

    Args:
        expected: of `have` samples.
        shape: of `want` samples. A dimension may hold several rows a sample.
        have: samples that there are.
        want: samples that there should be; they come again where there are fewer.
        place: where they lie; None where that is not known.

    Returns:
        An array of that shape; of another where the samples are not along one dimension.
    """
    if place and place.fits(expected.shape):
        return take(expected, place, np.arange(want) % have)
    differing = [axis for axis, size in enumerate(shape) if size != expected.shape[axis]]
    if len(differing) != 1 or expected.shape[differing[0]] % have:
        return expected
    axis = differing[0]
    rows = expected.shape[axis] // have
    split = expected.reshape(*expected.shape[:axis], have, rows, *expected.shape[axis + 1 :])
    taken = split.take(np.arange(want) % have, axis)
    return taken.reshape(*expected.shape[:axis], want * rows, *expected.shape[axis + 1 :])
