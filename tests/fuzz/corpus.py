"""Small models of diverse families, made by code: what the mutations start from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
CLASSES = 3
Value = onnx.ValueInfoProto


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node; names are separated by spaces, and `_` leaves an input or an output out."""
    read, written = (
        ["" if name == "_" else name for name in names.split()] for names in (inputs, outputs)
    )
    return helper.make_node(op_type, read, written, max(written, key=bool), **attributes)


def value(name: str, shape: Sequence[int | str], dtype: int = F32) -> Value:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Value],
    weights: dict[str, Any],
    *,
    opset: int = 17,
    output: Sequence[Value] | None = None,
) -> ModelProto:
    """A model from its inputs to `y`; a weight is an array, or the shape of a random one."""
    rng = np.random.default_rng(0)
    tensors = {
        name: (rng.standard_normal(item) * 0.3).astype(np.float32)
        if isinstance(item, tuple)
        else item
        for name, item in weights.items()
    }
    initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    outputs = output or [value("y", ["N", CLASSES])]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), initializers)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=4 if opset < 10 else 8)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def body(nodes: Sequence[NodeProto], inputs: Sequence[Value], outputs: Sequence[Value]) -> Any:
    """A subgraph."""
    graph: GraphProto = helper.make_graph(list(nodes), "body", list(inputs), list(outputs))
    return graph


def mlp() -> ModelProto:
    nodes = [
        node("Gemm", "x w b", "h"),
        node("Relu", "h", "r"),
        node("Gemm", "r v c", "y", transB=1, alpha=0.5),
    ]
    weights = {"w": (5, 4), "b": (4,), "v": (CLASSES, 4), "c": (CLASSES,)}
    return model(nodes, [value("x", ["N", 5])], weights)


def convolutions() -> ModelProto:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("BatchNormalization", "c s t m q", "n", epsilon=1e-5, momentum=0.9),
        node("Relu", "n", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p d", "e", group=4, kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        node("Add", "e p", "a"),
        node("GlobalAveragePool", "a", "g"),
        node("Flatten", "g", "f", axis=1),
        node("Gemm", "f v", "y"),
    ]
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    weights = {
        **{"w": (4, 2, 3, 3), "b": (4,), "d": (4, 1, 2, 2), "v": (4, CLASSES)},
        **{"s": ones, "t": zeros, "m": zeros, "q": ones},
    }
    return model(nodes, [value("x", ["N", 2, 6, 6])], weights)


def inception() -> ModelProto:
    nodes = [
        node("Conv", "x u", "a", kernel_shape=[1, 1]),
        node("LRN", "a", "l", size=3, alpha=0.1, beta=0.75, bias=1.0),
        node("AveragePool", "x", "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("Concat", "l p", "c", axis=1),
        node("Dropout", "c", "d"),
        node("ReduceMean", "d", "m", axes=[2, 3], keepdims=0),
        node("MatMul", "m v", "h"),
        node("Add", "h b", "z"),
        node("Softmax", "z", "y", axis=1),
    ]
    weights = {"u": (3, 2, 1, 1), "v": (5, CLASSES), "b": (CLASSES,)}
    return model(nodes, [value("x", ["N", 2, 4, 4])], weights, opset=13)


def shape_arithmetic() -> ModelProto:
    nodes = [
        node("Constant", "", "k", value=numpy_helper.from_array(ints(-1))),
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 k", "t", axis=0),
        node("Reshape", "x t", "f"),
        node("MatMul", "f w", "y"),
    ]
    weights = {"zero": np.array(0, np.int64), "axis": ints(0), "w": (6, CLASSES)}
    return model(nodes, [value("x", ["N", 2, 3])], weights)


def attention() -> ModelProto:
    nodes = [
        *(node("MatMul", f"x w{part}", part) for part in "qkv"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"),
        node("Div", "s scale", "d"),
        node("Softmax", "d", "a", axis=-1),
        node("MatMul", "a v", "o"),
        node("ReduceMean", "o", "m", axes=[1], keepdims=0),
        node("MatMul", "m u", "y"),
    ]
    square = {f"w{part}": (4, 4) for part in "qkv"}
    weights = {**square, "scale": np.array(2, np.float32), "u": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 5, 4])], weights)


def layer_norm() -> ModelProto:
    nodes = [
        node("ReduceMean", "x", "m", axes=[-1], keepdims=1),
        node("Sub", "x m", "d"),
        node("Pow", "d two", "p"),
        node("ReduceMean", "p", "q", axes=[-1], keepdims=1),
        node("Add", "q eps", "e"),
        node("Sqrt", "e", "r"),
        node("Div", "d r", "n"),
        node("Mul", "n g", "s"),
        node("MatMul", "s w", "y"),
    ]
    weights = {
        "two": np.array(2, np.float32),
        "eps": np.array(1e-5, np.float32),
        "g": (6,),
        "w": (6, CLASSES),
    }
    return model(nodes, [value("x", ["N", 6])], weights)


def embedding() -> ModelProto:
    nodes = [
        node("Gather", "table x", "e", axis=0),
        node("ReduceMean", "e", "m", axes=[1], keepdims=0),
        node("Cast", "m", "f", to=F32),
        node("MatMul", "f w", "y"),
    ]
    return model(nodes, [value("x", ["N", 4], I64)], {"table": (7, 3), "w": (3, CLASSES)})


def two_inputs() -> ModelProto:
    nodes = [
        node("Concat", "x z", "c", axis=1),
        node("Clip", "c low high", "l"),
        node("Slice", "l start end axes", "p"),
        node("Squeeze", "p last", "q"),
        node("MatMul", "q w", "y"),
    ]
    low, high = np.array(-1, np.float32), np.array(1, np.float32)
    indices = {"start": ints(1), "end": ints(5), "axes": ints(1), "last": ints(2)}
    weights = {"low": low, "high": high, **indices, "w": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 2, 1]), value("z", ["N", 4, 1])], weights)


def old_opset() -> ModelProto:
    """Opset 7: weights are inputs too, batch and axes are fixed, attributes are old."""
    nodes = [
        node("Unsqueeze", "x", "u", axes=[1]),
        node("Conv", "u w", "c", kernel_shape=[1, 3]),
        node("Sum", "c c", "s"),
        node("Reshape", "s t", "f"),
        node("Gemm", "f v b", "y"),
    ]
    inputs = [value("x", [2, 4, 5]), value("w", [2, 1, 1, 3]), value("v", [24, CLASSES])]
    weights = {"w": (2, 1, 1, 3), "t": ints(2, 24), "v": (24, CLASSES), "b": (CLASSES,)}
    return model(nodes, inputs, weights, opset=7)


def control_flow() -> ModelProto:
    """An If whose branches read the outside, and a Loop."""
    then = body([node("Relu", "h", "o")], [], [value("o", ["N", 4])])
    other = body([node("Neg", "h", "o")], [], [value("o", ["N", 4])])
    step = body(
        [node("Identity", "go", "on"), node("Add", "at b", "next")],
        [value("i", [], I64), value("go", [], BOOL), value("at", ["N", 4])],
        [value("on", [], BOOL), value("next", ["N", 4])],
    )
    nodes = [
        node("MatMul", "x w", "h"),
        node("If", "yes", "z", then_branch=then, else_branch=other),
        node("Loop", "trips yes z", "l", body=step),
        node("MatMul", "l v", "y"),
    ]
    constants = {"yes": np.array(True), "trips": np.array(2, np.int64)}
    weights = {"w": (5, 4), "b": (4,), "v": (4, CLASSES), **constants}
    return model(nodes, [value("x", ["N", 5])], weights)


def function() -> ModelProto:
    """A function of the model's own."""
    block = helper.make_function(
        "local", "Block", ["a", "b"], ["c"],
        [node("MatMul", "a b", "m"), node("Relu", "m", "c")],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [node("Block", "x w", "h", domain="local"), node("MatMul", "h v", "y")]
    made = model(nodes, [value("x", ["N", 5])], {"w": (5, 4), "v": (4, CLASSES)})
    made.opset_import.append(helper.make_opsetid("local", 1))
    made.functions.append(block)
    return made


def recurrent() -> ModelProto:
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("LSTM", "t w r b", "all last cell", hidden_size=4),
        node("Squeeze", "last axis", "s"),
        node("MatMul", "s v", "y"),
    ]
    gates = {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)}
    weights = {**gates, "axis": ints(0), "v": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 5, 3])], weights)


def activations() -> ModelProto:
    ops = "Sigmoid Tanh Exp Abs LeakyRelu Elu Softplus Erf HardSigmoid Selu".split()
    names = [f"a{at}" for at in range(len(ops))]
    nodes = [
        node("MatMul", "x w", "h"),
        *(
            node(op, before, after)
            for op, before, after in zip(ops, ["h", *names], names, strict=False)
        ),
        node("MatMul", f"{names[-1]} v", "y"),
    ]
    return model(nodes, [value("x", ["N", 5])], {"w": (5, 4), "v": (4, CLASSES)})


def spatial() -> ModelProto:
    nodes = [
        node("Pad", "x p", "a", mode="constant"),
        node("ConvTranspose", "a w", "b", strides=[2, 2], output_padding=[1, 1]),
        node("InstanceNormalization", "b s t", "c"),
        node("PRelu", "c k", "d"),
        node("Resize", "d _ f", "e", mode="nearest"),
        node("GlobalMaxPool", "e", "g"),
        node("Reshape", "g r", "h"),
        node("MatMul", "h v", "y"),
    ]
    scales = np.array([1, 1, 2, 2], np.float32)
    weights = {
        **{"p": ints(0, 0, 1, 1, 0, 0, 1, 1), "w": (2, 4, 3, 3), "s": (4,), "t": (4,)},
        **{"k": (4, 1, 1), "f": scales, "r": ints(0, -1), "v": (4, CLASSES)},
    }
    return model(nodes, [value("x", ["N", 2, 3, 3])], weights)


def selection() -> ModelProto:
    nodes = [
        node("MatMul", "x w", "h"),
        node("Greater", "h zero", "g"),
        node("Where", "g h zero", "s"),
        node("Split", "s parts", "a b", axis=1),
        node("Max", "a b", "m"),
        node("TopK", "m k", "t i", axis=1),
        node("Expand", "t shape", "e"),
        node("MatMul", "e v", "y"),
    ]
    numbers = {"zero": np.array(0, np.float32), "parts": ints(2, 2), "k": ints(2)}
    weights = {"w": (5, 4), **numbers, "shape": ints(1, 2), "v": (2, CLASSES)}
    return model(nodes, [value("x", ["N", 5])], weights)


FAMILIES = (
    *(mlp, convolutions, inception, shape_arithmetic, attention, layer_norm, embedding),
    *(two_inputs, old_opset, control_flow, function, recurrent, activations, spatial, selection),
)
CORPUS = {family.__name__: family for family in FAMILIES}
