"""A decoder of tokens of SmolLM2-135M's shape, written out as exporters write it, without weights.

Root mean squares, rotary positions, heads that share keys and values, a gated layer, and an
embedding that is also the head: some 60 nodes for each layer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_BASE = 10_000.0
_EPSILON = 1e-5


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of a decoder; SmolLM2-135M's.

    Attributes:
        layers: of attention and a gated layer each.
        hidden: features of a token.
        heads: of queries.
        shared: heads of keys and values.
        inner: features inside of a gated layer.
        vocabulary: tokens that there are.
        length: tokens in a sample.
    """

    layers: int = 30
    hidden: int = 576
    heads: int = 9
    shared: int = 3
    inner: int = 1536
    vocabulary: int = 49152
    length: int = 64

    @property
    def width(self) -> int:
        """Features of a head."""
        return self.hidden // self.heads


def decoder(shape: DecoderShape) -> onnx.ModelProto:
    """From tokens `[N, length]` to the scores of each next one, `[N, length, vocabulary]`."""
    return _Decoder(shape).model()


class _Decoder:
    """The nodes and tensors so far."""

    def __init__(self, shape: DecoderShape) -> None:
        self.shape = shape
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(0)

    def model(self) -> onnx.ModelProto:
        """The whole."""
        sizes = self.shape
        embedding = self._weight("embed_tokens.weight", sizes.vocabulary, sizes.hidden)
        x = self._node("Gather", embedding, "ids")
        for layer in range(sizes.layers):
            name = f"layers.{layer}"
            x = self._node("Add", x, self._attention(f"{name}.self_attn", self._norm(name, x)))
            name = f"{name}.post_attention"
            x = self._node("Add", x, self._gated(f"{name}.mlp", self._norm(name, x)))
        head = self._node("Transpose", embedding, perm=[1, 0])
        scores = self._node("MatMul", self._norm("final", x), head)
        out = ["N", sizes.length, sizes.vocabulary]
        graph = helper.make_graph(
            self._nodes,
            "decoder",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", sizes.length])],
            [helper.make_tensor_value_info(scores, TensorProto.FLOAT, out)],
            self._tensors,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        output = f"{op_type}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, inputs, [output], output, **attributes))
        return output

    def _tensor(self, name: str, value: np.ndarray) -> str:
        self._tensors.append(numpy_helper.from_array(value, name))
        return name

    def _constant(self, value: np.ndarray) -> str:
        return self._tensor(f"constant_{len(self._tensors)}", value)

    def _number(self, value: float) -> str:
        return self._constant(np.array(value, np.float32))

    def _weight(self, name: str, *shape: int) -> str:
        scale = np.float32(0.02)
        return self._tensor(name, self._rng.standard_normal(shape, np.float32) * scale)

    def _linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        return self._node("MatMul", x, self._weight(f"{name}.weight", inputs, outputs))

    def _norm(self, name: str, x: str) -> str:
        mean = self._node("ReduceMean", self._node("Pow", x, self._number(2.0)), axes=[-1])
        root = self._node("Sqrt", self._node("Add", mean, self._number(_EPSILON)))
        normal = self._node("Mul", x, self._node("Div", self._number(1.0), root))
        ones = np.ones(self.shape.hidden, np.float32)
        return self._node("Mul", self._tensor(f"{name}.layernorm.weight", ones), normal)

    def _reshaped(self, x: str, *shape: int) -> str:
        return self._node("Reshape", x, self._constant(np.array(shape)))

    def _heads(self, name: str, x: str, count: int) -> str:
        """`[N, count, length, width]`."""
        sizes = self.shape
        product = self._linear(name, x, sizes.hidden, count * sizes.width)
        parts = self._reshaped(product, 0, sizes.length, count, sizes.width)
        return self._node("Transpose", parts, perm=[0, 2, 1, 3])

    def _slice(self, x: str, start: int, end: int) -> str:
        given = ([start], [end], [-1])
        return self._node("Slice", x, *(self._constant(np.array(each)) for each in given))

    def _turned(self, x: str) -> str:
        """Encodes positions by rotations of pairs of features."""
        half = self.shape.width // 2
        rates = _BASE ** -(np.arange(half) / half)
        angles = np.tile(np.outer(np.arange(self.shape.length), rates), 2).astype(np.float32)
        other = self._node("Neg", self._slice(x, half, 2 * half))
        pairs = self._node("Concat", other, self._slice(x, 0, half), axis=-1)
        return self._node(
            "Add",
            self._node("Mul", x, self._constant(np.cos(angles))),
            self._node("Mul", pairs, self._constant(np.sin(angles))),
        )

    def _repeated(self, x: str) -> str:
        """Heads of keys or values for all heads of queries."""
        sizes = self.shape
        parts = self._node("Unsqueeze", x, self._constant(np.array([2])))
        times = [1, sizes.shared, sizes.heads // sizes.shared, sizes.length, sizes.width]
        wide = self._node("Expand", parts, self._constant(np.array(times)))
        return self._reshaped(wide, 0, sizes.heads, sizes.length, sizes.width)

    def _attention(self, name: str, x: str) -> str:
        sizes = self.shape
        query = self._turned(self._heads(f"{name}.q_proj", x, sizes.heads))
        key = self._repeated(self._turned(self._heads(f"{name}.k_proj", x, sizes.shared)))
        value = self._repeated(self._heads(f"{name}.v_proj", x, sizes.shared))
        scores = self._node("MatMul", query, self._node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self._node("Mul", scores, self._number(sizes.width**-0.5))
        mask = np.triu(np.full((sizes.length, sizes.length), -1e9, np.float32), 1)
        scores = self._node("Add", scores, self._constant(mask))
        read = self._node("MatMul", self._node("Softmax", scores, axis=-1), value)
        read = self._node("Transpose", read, perm=[0, 2, 1, 3])
        read = self._reshaped(read, 0, sizes.length, sizes.hidden)
        return self._linear(f"{name}.o_proj", read, sizes.hidden, sizes.hidden)

    def _gated(self, name: str, x: str) -> str:
        sizes = self.shape
        gate = self._linear(f"{name}.gate_proj", x, sizes.hidden, sizes.inner)
        gate = self._node("Mul", gate, self._node("Sigmoid", gate))
        up = self._linear(f"{name}.up_proj", x, sizes.hidden, sizes.inner)
        return self._linear(
            f"{name}.down_proj", self._node("Mul", gate, up), sizes.inner, sizes.hidden
        )
