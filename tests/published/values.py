"""Values to feed to a file, onnxruntime's outputs for them, and the distance of two results."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_errors
from scipy.special import softmax

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Role, TensorSpec
from tests.published.options import Options


@dataclass(frozen=True)
class Values:
    """One batch.

    Attributes:
        inputs: by name.
        label: of the loss.
        is_class: whether the label holds class numbers.
        sizes: of symbolic dimensions, for inputs that the step does not take.
    """

    inputs: dict[str, np.ndarray]
    label: np.ndarray
    is_class: bool
    sizes: Mapping[str, Any]

    @classmethod
    def of(cls, manifest: Manifest, options: Options) -> "Values":
        """Drawn from the same seed each time."""
        rng = np.random.default_rng(0)
        bound = manifest.bound
        inputs = {
            item.spec.name: _drawn(rng, item.spec, options.high, options.scale)
            for item in manifest.of_role(Role.INPUT)
            if item.spec.name not in bound
        }
        (label,) = manifest.of_role(Role.LABEL)
        is_class = options.loss == "cross-entropy"
        sizes = {"batch": options.batch, **options.shape}
        label_of = _drawn(rng, label.spec, label.classes.count if label.classes else 2)
        return cls(inputs, label_of, is_class, sizes)


def _drawn(rng: np.random.Generator, spec: TensorSpec, high: int, scale: float = 1.0) -> np.ndarray:
    if spec.dtype.startswith("float"):
        return (scale * rng.standard_normal(spec.shape)).astype(spec.dtype)
    if spec.dtype == "bool":
        return np.ones(spec.shape, bool)
    return rng.integers(0, high, spec.shape).astype(spec.dtype)


def session(file: "str | os.PathLike[str] | bytes") -> onnxruntime.InferenceSession:
    """Of a file or what it holds, on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = file if isinstance(file, bytes) else os.fspath(file)
    return onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])


def _loaded(path: "str | os.PathLike[str]", values: Values) -> onnxruntime.InferenceSession:
    """A file as it is; where onnxruntime does not take that, with the sizes of what is fed.

    What it infers of open sizes may be no model, such as after a Squeeze without axes, where the
    sizes make it one.
    """
    try:
        return session(path)
    except onnxruntime_errors.Fail:
        model = onnx.load(path)
        for value in model.graph.input:
            fed = values.inputs.get(value.name)
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, () if fed is None else fed.shape, strict=False):
                dim.dim_value = size
        return session(model.SerializeToString())


def ran(
    path: "str | os.PathLike[str]", values: Values, bound: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The outputs of a file by onnxruntime; one of a fixed batch of 1 runs once a sample."""
    machine = _loaded(path, values)
    feed = {item.name: _fed(item, values, bound) for item in machine.get_inputs()}
    names = [item.name for item in machine.get_outputs()]
    if not _takes_one(machine, feed):
        return dict(zip(names, map(_plain, machine.run(names, feed)), strict=True))
    each = [
        machine.run(names, {name: array[n : n + 1] for name, array in feed.items()})
        for n in range(len(next(iter(feed.values()))))
    ]
    return dict(zip(names, map(np.concatenate, zip(*each, strict=True)), strict=True))


def _fed(item: Any, values: Values, bound: Mapping[str, Any]) -> np.ndarray:
    """An input; one that is neither fed nor bound has no part in what is compared."""
    if item.name in values.inputs:
        return values.inputs[item.name]
    if bound.get(item.name) is not None:
        return np.asarray(bound[item.name], _TYPES[item.type])
    return np.ones([values.sizes.get(size, size) for size in item.shape], _TYPES[item.type])


def _plain(output: Any) -> np.ndarray:
    """An output as a tensor: scikit-learn's is a dictionary for each sample, by class."""
    if isinstance(output, list):
        return np.array([[each[key] for key in sorted(each)] for each in output])
    return np.asarray(output)


def _takes_one(machine: onnxruntime.InferenceSession, feed: Mapping[str, np.ndarray]) -> bool:
    return all(
        item.shape and item.shape[0] == 1 and len(feed[item.name]) > 1
        for item in machine.get_inputs()
    )


_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def difference(found: np.ndarray, expected: np.ndarray, may_be_logits: bool) -> float:
    """The largest one, relative to the largest number where that is above 1.

    A closing softmax is left to the loss by odtc, whose output is then that in front of it.
    """
    if found.shape != expected.shape:
        return float("inf")
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    off = [np.abs(found - expected).max(initial=0)]
    if may_be_logits:
        off.append(np.abs(softmax(found, -1) - expected).max(initial=0))
    return float(min(off)) / scale
