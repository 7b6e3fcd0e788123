"""Small models of images: what the edits start from."""

import numpy as np
from onnx import ModelProto, NodeProto

from tests.fuzz.corpus import CLASSES, ints, model, node, value


def _ends(features: str, weight: str = "head") -> list[NodeProto]:
    """The mean of each channel, and scores."""
    return [
        node("GlobalAveragePool", features, "pooled"),
        node("Flatten", "pooled", "flat", axis=1),
        node("Gemm", f"flat {weight} bias", "y"),
    ]


def _head(channels: int) -> dict[str, tuple[int, ...]]:
    return {"head": (channels, CLASSES), "bias": (CLASSES,)}


def _statistics(name: str, channels: int) -> dict[str, np.ndarray]:
    """Scale, shift, mean and variance of a batch normalisation."""
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    return {f"{name}s": ones, f"{name}t": zeros, f"{name}m": zeros, f"{name}v": ones}


def _normalised(name: str, read: str, written: str) -> NodeProto:
    inputs = f"{read} {name}s {name}t {name}m {name}v"
    return node("BatchNormalization", inputs, written, epsilon=1e-5)


def convnet() -> ModelProto:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p u", "d", kernel_shape=[2, 2], dilations=[1, 1]),
        node("LeakyRelu", "d", "e", alpha=0.1),
        node("AveragePool", "e", "a", kernel_shape=[2, 2]),
        *_ends("a"),
    ]
    weights = {"w": (4, 2, 3, 3), "b": (4,), "u": (3, 4, 2, 2), **_head(3)}
    return model(nodes, [value("x", ["N", 2, 6, 6])], weights)


def batch_norm() -> ModelProto:
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[1, 1]),
        _normalised("one", "c", "n"),
        node("Relu", "n", "r"),
        node("Conv", "r u b", "d", kernel_shape=[3, 3], strides=[2, 2]),
        _normalised("two", "d", "o"),
        node("Sigmoid", "o", "s"),
        node("Mul", "o s", "swish"),
        *_ends("swish"),
    ]
    weights = {"w": (4, 2, 1, 1), "u": (3, 4, 3, 3), "b": (3,), **_head(3)}
    statistics = {**_statistics("one", 4), **_statistics("two", 3)}
    return model(nodes, [value("x", ["N", 2, 5, 5])], {**weights, **statistics}, opset=15)


def depthwise() -> ModelProto:
    nodes = [
        node("Conv", "x w", "wide", kernel_shape=[1, 1]),
        node("Clip", "wide low high", "a"),
        node("Conv", "a d", "deep", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=6),
        node("HardSwish", "deep", "h"),
        node("Conv", "h u", "narrow", kernel_shape=[1, 1]),
        node("Add", "x narrow", "sum"),
        *_ends("sum"),
    ]
    bounds = {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    weights = {"w": (6, 2, 1, 1), "d": (6, 1, 3, 3), "u": (2, 6, 1, 1), **_head(2)}
    return model(nodes, [value("x", ["N", 2, 4, 4])], {**weights, **bounds})


def residual() -> ModelProto:
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        _normalised("one", "c", "n"),
        node("Relu", "n", "r"),
        node("Conv", "r u", "d", auto_pad="SAME_UPPER", kernel_shape=[3, 3]),
        _normalised("two", "d", "o"),
        node("Conv", "x short", "s", kernel_shape=[1, 1], strides=[2, 2]),
        node("Add", "o s", "sum"),
        node("Relu", "sum", "out"),
        *_ends("out"),
    ]
    weights = {"w": (3, 2, 3, 3), "u": (3, 3, 3, 3), "short": (3, 2, 1, 1), **_head(3)}
    statistics = {**_statistics("one", 3), **_statistics("two", 3)}
    return model(nodes, [value("x", ["N", 2, 6, 6])], {**weights, **statistics})


def group_norm() -> ModelProto:
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3]),
        node("GroupNormalization", "c gs gt", "g", num_groups=2),
        node("Mish", "g", "m"),
        node("InstanceNormalization", "m is it", "i"),
        node("PRelu", "i slope", "p"),
        node("LpNormalization", "p", "l", axis=1, p=2),
        *_ends("l"),
    ]
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    norms = {"gs": ones, "gt": zeros, "is": ones, "it": zeros}
    weights = {"w": (4, 2, 3, 3), "slope": (4, 1, 1), **_head(4)}
    return model(nodes, [value("x", ["N", 2, 5, 5])], {**weights, **norms}, opset=21)


def unet() -> ModelProto:
    """Scores of every pixel."""
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c", "skip"),
        node("MaxPool", "skip", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p u", "d", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("ConvTranspose", "d t", "up", kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", "p _ f", "big", mode="linear"),
        node("Concat", "skip up big", "all", axis=1),
        node("Conv", "all v", "y", kernel_shape=[1, 1]),
    ]
    weights = {
        **{"w": (3, 2, 3, 3), "b": (3,), "u": (3, 3, 3, 3), "t": (3, 2, 2, 2)},
        **{"f": np.array([1, 1, 2, 2], np.float32), "v": (CLASSES, 8, 1, 1)},
    }
    outputs = [value("y", ["N", CLASSES, 4, 4])]
    return model(nodes, [value("x", ["N", 2, 4, 4])], weights, output=outputs)


def siamese() -> ModelProto:
    """Two images through the same weights."""
    towers = [
        [
            node("Conv", f"{name} w b", f"{name}c", kernel_shape=[2, 2], strides=[2, 2]),
            node("Tanh", f"{name}c", f"{name}t"),
            node("ReduceMean", f"{name}t axes", f"{name}m", keepdims=0),
        ]
        for name in ("x", "z")
    ]
    nodes = [
        *(each for tower in towers for each in tower),
        node("Sub", "xm zm", "d"),
        node("Abs", "d", "a"),
        node("MatMul", "a v", "y"),
    ]
    weights = {"w": (3, 2, 2, 2), "b": (3,), "v": (3, CLASSES), "axes": ints(2, 3)}
    inputs = [value(name, ["N", 2, 4, 4]) for name in ("x", "z")]
    return model(nodes, inputs, weights, opset=18)


KINDS = (convnet, batch_norm, depthwise, residual, group_norm, unet, siamese)
