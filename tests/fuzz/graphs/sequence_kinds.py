"""Small models of rows and sequences: what the edits start from."""

import numpy as np
from onnx import ModelProto, numpy_helper

from tests.fuzz.corpus import CLASSES, I64, ints, model, node, value


def mlp() -> ModelProto:
    nodes = [
        node("Gemm", "x w b", "h", alpha=1.0, transB=0),
        node("Relu", "h", "r"),
        node("Dropout", "r rate", "d"),
        node("MatMul", "d u", "m"),
        node("Softplus", "m", "s"),
        node("Gemm", "s v c", "y", transB=1),
    ]
    weights = {
        **{"w": (5, 6), "b": (6,), "u": (6, 4), "v": (CLASSES, 4), "c": (CLASSES,)},
        "rate": np.array(0.25, np.float32),
    }
    return model(nodes, [value("x", ["N", 5])], weights)


def two_losses() -> ModelProto:
    """Classes, and numbers beside them."""
    nodes = [
        node("Gemm", "x w b", "h"),
        node("Elu", "h", "e", alpha=0.5),
        node("Gemm", "e v c", "y"),
        node("MatMul", "e u", "far"),
        node("Tanh", "far", "z"),
    ]
    weights = {"w": (5, 4), "b": (4,), "v": (4, CLASSES), "c": (CLASSES,), "u": (4, 2)}
    outputs = [value("y", ["N", CLASSES]), value("z", ["N", 2])]
    return model(nodes, [value("x", ["N", 5])], weights, output=outputs)


def lstm() -> ModelProto:
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("LSTM", "t w r b", "all last cell", hidden_size=4, direction="forward"),
        node("Squeeze", "last axis", "s"),
        node("ReduceMax", "all", "top", axes=[0, 1], keepdims=0),
        node("Add", "s top", "a"),
        node("MatMul", "a v", "y"),
    ]
    gates = {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)}
    weights = {**gates, "axis": ints(0), "v": (4, CLASSES)}
    return model(nodes, [value("x", ["N", 4, 3])], weights)


def gru() -> ModelProto:
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("GRU", "t w r b", "all", hidden_size=3, direction="bidirectional"),
        node("Transpose", "all", "n", perm=[2, 0, 1, 3]),
        node("Reshape", "n shape", "f"),
        node("RNN", "t rw rr", "_ hidden", hidden_size=4),
        node("Squeeze", "hidden first", "h"),
        node("Concat", "f h", "c", axis=1),
        node("MatMul", "c v", "y"),
    ]
    weights = {
        **{"w": (2, 9, 3), "r": (2, 9, 3), "b": (2, 18), "rw": (1, 4, 3), "rr": (1, 4, 4)},
        **{"shape": ints(0, -1), "first": ints(0), "v": (4 * 2 * 3 + 4, CLASSES)},
    }
    return model(nodes, [value("x", ["N", 4, 3])], weights)


def attention() -> ModelProto:
    """Two heads, with a causal mask."""
    split = [
        [
            node("MatMul", f"x w{part}", part),
            node("Reshape", f"{part} apart", f"{part}r"),
            node("Transpose", f"{part}r", f"{part}h", perm=[0, 2, *order]),
        ]
        for part, order in (("q", (1, 3)), ("k", (3, 1)), ("v", (1, 3)))
    ]
    nodes = [
        *(each for part in split for each in part),
        node("MatMul", "qh kh", "s"),
        node("Mul", "s scale", "scaled"),
        node("Where", "mask scaled far", "m"),
        node("Softmax", "m", "a", axis=-1),
        node("MatMul", "a vh", "o"),
        node("Transpose", "o", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t joined", "j"),
        node("ReduceMean", "j", "r", axes=[1], keepdims=0),
        node("MatMul", "r u", "y"),
    ]
    weights = {
        **{f"w{part}": (4, 4) for part in "qkv"},
        **{"apart": ints(0, 0, 2, 2), "joined": ints(0, 0, -1), "u": (4, CLASSES)},
        **{"scale": np.array(0.7, np.float32), "far": np.array(-1e9, np.float32)},
        "mask": np.tril(np.ones((5, 5), bool)),
    }
    return model(nodes, [value("x", ["N", 5, 4])], weights)


def encoder() -> ModelProto:
    """A block of a transformer: layer normalisations, attention and a feed-forward part."""
    nodes = [
        node("Add", "x place", "p"),
        node("LayerNormalization", "p gs gt", "n", axis=-1),
        *(node("MatMul", f"n w{part}", part) for part in "qkv"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"),
        node("Softmax", "s", "a"),
        node("MatMul", "a v", "o"),
        node("Add", "p o", "one"),
        node("LayerNormalization", "one hs", "h", axis=2),
        node("MatMul", "h up", "u"),
        node("Gelu", "u", "g"),
        node("MatMul", "g down", "d"),
        node("Add", "one d", "two"),
        node("Gather", "two first", "cls", axis=1),
        node("MatMul", "cls head", "y"),
    ]
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    weights = {
        **{"place": (1, 3, 4), "gs": ones, "gt": zeros, "hs": ones, "up": (4, 6), "down": (6, 4)},
        **{f"w{part}": (4, 4) for part in "qkv"},
        **{"first": np.array(0, np.int64), "head": (4, CLASSES)},
    }
    return model(nodes, [value("x", ["N", 3, 4])], weights, opset=20)


def language_model() -> ModelProto:
    """The next token, with the embedding as the matrix of the scores."""
    nodes = [
        node("Gather", "table x", "e", axis=0),
        node("Add", "e place", "p"),
        node("MatMul", "p w", "h"),
        node("Erf", "h", "a"),
        node("CumSum", "a axis", "c"),
        node("Transpose", "table", "t", perm=[1, 0]),
        node("MatMul", "c t", "scores"),
        node("Transpose", "scores", "y", perm=[0, 2, 1]),
    ]
    weights = {
        **{"table": (6, 3), "place": (4, 3), "w": (3, 3)},
        "axis": np.array(1, np.int64),
    }
    outputs = [value("y", ["N", 6, 4])]
    return model(nodes, [value("x", ["N", 4], I64)], weights, output=outputs)


def shapes() -> ModelProto:
    """Sizes that the graph computes."""
    nodes = [
        node("Constant", "", "k", value=numpy_helper.from_array(ints(-1))),
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 k", "t", axis=0),
        node("Reshape", "x t", "f"),
        node("Range", "start limit delta", "at"),
        node("Add", "f at", "a"),
        node("ConstantOfShape", "size", "ones", value=numpy_helper.from_array(np.ones(1, "f"))),
        node("Mul", "a ones", "m"),
        node("MatMul", "m w", "y"),
    ]
    numbers = {"start": 0.0, "limit": 3.0, "delta": 0.5}
    weights = {
        **{name: np.array(number, np.float32) for name, number in numbers.items()},
        **{"zero": np.array(0, np.int64), "axis": ints(0), "size": ints(6), "w": (6, CLASSES)},
    }
    return model(nodes, [value("x", ["N", 2, 3])], weights)


def selection() -> ModelProto:
    nodes = [
        node("MatMul", "x w", "h"),
        node("Greater", "h zero", "g"),
        node("Where", "g h zero", "s"),
        node("Split", "s", "a b", axis=1, num_outputs=2),
        node("Max", "a b", "m"),
        node("TopK", "m k", "t i", axis=1),
        node("Slice", "h begin end last", "l"),
        node("Concat", "t l", "c", axis=1),
        node("Einsum", "c v", "y", equation="ij,jk->ik"),
    ]
    numbers = {"zero": np.array(0, np.float32), "k": ints(1), "begin": ints(1), "end": ints(3)}
    weights = {"w": (5, 4), **numbers, "last": ints(1), "v": (3, CLASSES)}
    return model(nodes, [value("x", ["N", 5])], weights, opset=18)


KINDS = (*(mlp, two_losses, lstm, gru, attention, encoder, language_model, shapes, selection),)
