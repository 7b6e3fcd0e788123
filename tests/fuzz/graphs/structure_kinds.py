"""Small models with bodies, functions, sequences, quantised parts and files beside them."""

import numpy as np
from onnx import ModelProto, helper

from tests.fuzz.corpus import BOOL, CLASSES, I64, body, ints, model, node, value

_TAIL = node("MatMul", "end v", "y")


def loop() -> ModelProto:
    """A Loop that carries a state and stacks what it saw."""
    step = body(
        [
            node("Identity", "go", "on"),
            node("MatMul", "at w", "m"),
            node("Tanh", "m", "next"),
            node("Identity", "next", "seen"),
        ],
        [value("i", [], I64), value("go", [], BOOL), value("at", ["N", 4])],
        [value("on", [], BOOL), value("next", ["N", 4]), value("seen", ["N", 4])],
    )
    nodes = [
        node("MatMul", "x u", "h"),
        node("Loop", "trips yes h", "last all", body=step),
        node("ReduceSum", "all axes", "sum", keepdims=0),
        node("Add", "last sum", "end"),
        _TAIL,
    ]
    constants = {"yes": np.array(True), "trips": np.array(3, np.int64), "axes": ints(0)}
    weights = {"u": (5, 4), "w": (4, 4), "v": (4, CLASSES), **constants}
    return model(nodes, [value("x", ["N", 5])], weights)


def branches() -> ModelProto:
    """An If on a constant, and one on the data."""
    out = [value("o", ["N", 4])]
    relu, negative = (body([node(op, "h", "o")], [], out) for op in ("Relu", "Neg"))
    product = body([node("MatMul", "z w", "o")], [], out)
    halved = body([node("Mul", "z half", "o")], [], out)
    nodes = [
        node("MatMul", "x u", "h"),
        node("If", "yes", "z", then_branch=relu, else_branch=negative),
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "positive"),
        node("If", "positive", "end", then_branch=product, else_branch=halved),
        _TAIL,
    ]
    constants = {
        "yes": np.array(True),
        "zero": np.array(0, np.float32),
        "half": np.array(0.5, np.float32),
    }
    weights = {"u": (5, 4), "w": (4, 4), "v": (4, CLASSES), **constants}
    return model(nodes, [value("x", ["N", 5])], weights)


def scan() -> ModelProto:
    step = body(
        [
            node("MatMul", "seen w", "p"),
            node("Add", "at p", "a"),
            node("Sigmoid", "a", "next"),
            node("Identity", "next", "out"),
        ],
        [value("at", ["N", 4]), value("seen", ["N", 3])],
        [value("next", ["N", 4]), value("out", ["N", 4])],
    )
    nodes = [
        node("ReduceMean", "x", "m", axes=[1], keepdims=0),
        node("MatMul", "m u", "begin"),
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("Scan", "begin t", "last all", body=step, num_scan_inputs=1),
        node("ReduceMax", "all", "top", axes=[0], keepdims=0),
        node("Add", "last top", "end"),
        _TAIL,
    ]
    weights = {"u": (3, 4), "w": (3, 4), "v": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 3, 3])], weights)


def functions() -> ModelProto:
    """A function that calls another, with an attribute of its own."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_function(
        "local", "Inner", ["a", "b"], ["c"],
        [node("MatMul", "a b", "m"), node("LeakyRelu", "m", "c", alpha=0.2)], opsets,
    )  # fmt: skip
    outer = helper.make_function(
        "local", "Outer", ["a", "b", "s"], ["c"],
        [node("Inner", "a b", "i", domain="local"), node("Mul", "i s", "c")], opsets,
    )  # fmt: skip
    nodes = [
        node("Outer", "x w scale", "h", domain="local"),
        node("Inner", "h u", "end", domain="local"),
        _TAIL,
    ]
    weights = {"w": (5, 4), "u": (4, 4), "v": (4, CLASSES), "scale": (4,)}
    made = model(nodes, [value("x", ["N", 5])], weights)
    made.opset_import.append(helper.make_opsetid("local", 1))
    made.functions.extend([inner, outer])
    return made


def sequences() -> ModelProto:
    nodes = [
        node("SplitToSequence", "x parts", "s", axis=1),
        node("SequenceAt", "s one", "a"),
        node("MatMul", "a w", "m"),
        node("SequenceInsert", "s m", "t"),
        node("SequenceErase", "t one", "e"),
        node("ConcatFromSequence", "e", "c", axis=1),
        node("SequenceConstruct", "c c", "twice"),
        node("ConcatFromSequence", "twice", "end", axis=1),
        _TAIL,
    ]
    weights = {"parts": ints(2, 3), "one": np.array(1, np.int64), "w": (3, 4), "v": (12, CLASSES)}
    return model(nodes, [value("x", ["N", 5])], weights)


def quantised() -> ModelProto:
    """Weights of 8 bits, and activations that go through 8 bits."""
    nodes = [
        node("DequantizeLinear", "qw ws wz", "w", axis=1),
        node("MatMul", "x w", "h"),
        node("QuantizeLinear", "h hs hz", "q"),
        node("DequantizeLinear", "q hs hz", "d"),
        node("Relu", "d", "r"),
        node("Gemm", "r u b", "end"),
        _TAIL,
    ]
    drawn = np.random.default_rng(1)
    eight = {
        "qw": drawn.integers(-100, 100, (5, 4)).astype(np.int8),
        **{"ws": np.full(4, 0.01, np.float32), "wz": np.zeros(4, np.int8)},
        **{"hs": np.array(0.05, np.float32), "hz": np.array(128, np.uint8)},
    }
    weights = {**eight, "u": (4, 4), "b": (4,), "v": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 5])], weights)


def external_data() -> ModelProto:
    """Its weights lie in a file beside it, once it is written."""
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3]),
        node("Relu", "c", "r"),
        node("Flatten", "r", "f"),
        node("Gemm", "f u k", "end"),
        _TAIL,
    ]
    weights = {"w": (3, 2, 3), "b": (3,), "u": (12, 4), "k": (4,), "v": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 2, 6])], weights)


def old_opset() -> ModelProto:
    """Opset 9: attributes where there are inputs now, and weights among the inputs."""
    nodes = [
        node("Unsqueeze", "x", "u", axes=[1]),
        node("Conv", "u w", "c", kernel_shape=[1, 3]),
        node("Clip", "c", "k", min=-1.0, max=1.0),
        node("Slice", "k", "s", axes=[3], starts=[0], ends=[3]),
        node("Upsample", "s f", "big", mode="nearest"),
        node("ReduceSum", "big", "r", axes=[2], keepdims=0),
        node("Reshape", "r t", "end"),
        _TAIL,
    ]
    inputs = [value("x", ["N", 4, 5]), value("w", [2, 1, 1, 3])]
    weights = {
        **{"w": (2, 1, 1, 3), "f": np.array([1, 1, 1, 2], np.float32), "t": ints(-1, 12)},
        "v": (12, CLASSES),
    }
    return model(nodes, inputs, weights, opset=9)


KINDS = (loop, branches, scan, functions, sequences, quantised, external_data, old_opset)
