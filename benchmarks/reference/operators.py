"""ONNX operators as PyTorch functions: one table, written from the ONNX standard.

A function takes the node's attributes and its inputs, and returns the first output. Dropout is the
identity. Left out are operators whose result depends on more than that (see the trainer).
"""

import functools
import math

import onnx
import torch
from onnx import helper
from torch import Tensor

from benchmarks.reference import elementwise
from benchmarks.reference.attention import ATTENTION
from benchmarks.reference.elementwise import Attributes, Op
from benchmarks.reference.indexing import INDEXING
from benchmarks.reference.recurrent import RECURRENT
from benchmarks.reference.regions import REGIONS
from benchmarks.reference.sampling import SAMPLING
from benchmarks.reference.signal import SIGNAL
from benchmarks.reference.spatial import SPATIAL
from benchmarks.reference.unpooling import UNPOOLING


def attributes(node: onnx.NodeProto) -> Attributes:
    """The attributes of a node, by name."""
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {key: v.decode() if isinstance(v, bytes) else v for key, v in values.items()}


# --- operators that need more than a line ---------------------------------------------


def _gemm(attrs: Attributes, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.T if attrs.get("transA") else a
    b = b.T if attrs.get("transB") else b
    product = attrs.get("alpha", 1.0) * (a @ b)
    return product if c is None else product + attrs.get("beta", 1.0) * c


def _axes(attrs: Attributes, given: Tensor | None) -> list[int] | None:
    """`axes` is an attribute in older opsets and an input in newer ones."""
    return attrs.get("axes") if given is None else given.tolist()


def _squeeze(attrs: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    listed = _axes(attrs, axes)
    return x.squeeze() if listed is None else x.squeeze(tuple(listed))


def _unsqueeze(attrs: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    listed = _axes(attrs, axes) or []
    rank = x.ndim + len(listed)
    return functools.reduce(torch.unsqueeze, sorted(axis % rank for axis in listed), x)


# --- operator type to function of (attributes, inputs) ------------------------------------------

_PLAIN: dict[str, Op] = {
    "Dropout": lambda x, *_: x,
    "Identity": lambda x: x,
    "MatMul": torch.matmul,
}

_WITH_ATTRIBUTES: dict[str, Op] = {
    "Concat": lambda attrs, *xs: torch.cat(xs, attrs["axis"]),
    "Flatten": lambda attrs, x: x.reshape(math.prod(x.shape[: attrs.get("axis", 1)]), -1),
    "Gemm": _gemm,
    "Squeeze": _squeeze,
    "Transpose": lambda attrs, x: x.permute(attrs.get("perm", tuple(range(x.ndim))[::-1])),
    "Unsqueeze": _unsqueeze,
}


def _without_attributes(function: Op) -> Op:
    return lambda _, *inputs: function(*inputs)


def operators(model: onnx.ModelProto) -> dict[str, Op]:
    """The operators as the model's opset defines them."""
    plain = {name: _without_attributes(op) for name, op in (elementwise.PLAIN | _PLAIN).items()}
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    older = elementwise.BEFORE_OPSET_13 if opset < 13 else {}
    families = ATTENTION | INDEXING | RECURRENT | REGIONS | SAMPLING | SIGNAL | SPATIAL | UNPOOLING
    return plain | elementwise.WITH_ATTRIBUTES | _WITH_ATTRIBUTES | families | older
