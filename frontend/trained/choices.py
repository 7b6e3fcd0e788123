"""Choices of what is trained, each a frozen dataclass that is read from its text.

    *                                        all parameters, but those that the file says are frozen
    head.*, *.bias                           parameters by a glob over their ONNX names
    bias                                     what is added after a layer's product (TinyTL: Cai et
                                             al., "TinyTL: Reduce Memory, Not Parameters for
                                             Efficient On-Device Learning", 2020)
    last{k=2}                                the last k layers, and all that is read from there on
    sparse{layers=features.*,channels=0.25}  a part of the output channels of weights (Lin et al.,
                                             "On-Device Training Under 256KB Memory", 2022)

A glob whose text is a choice's name is written with brackets: `[b]ias`.

The channels of a sparse update are neighbours, so that gradient, state and update are dense: of all
blocks of that size the one whose weights have the largest L2 norm. In grouped convolutions a block
is whole groups, or a part of one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Protocol

import numpy as np

from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.options.checked_options import check_options, count, make_choice, share, text
from odtc.core.specs import Block
from odtc.frontend.graph import Graph, attributes, statistics_of
from odtc.frontend.trained.layers import Layer, layers_of

EVERYTHING = "*"
# Name of a parameter to the part of it that is trained; None is all of it.
Parts = Mapping[str, Block | None]


class Choice(Protocol):
    """The interface of choices."""

    def parts(self, graph: Graph) -> Parts:
        """The parameters that it selects; empty where it matches none."""
        ...


@dataclass(frozen=True)
class Glob:
    """Parameters whose name matches, or is the text itself; running statistics are none."""

    pattern: str

    def parts(self, graph: Graph) -> Parts:
        """All of each."""
        frozen = graph.frozen if self.pattern == EVERYTHING else frozenset()
        names = trainable(graph)
        matching = (n for n in names if n == self.pattern or fnmatchcase(n, self.pattern))
        return dict.fromkeys(name for name in matching if name not in frozen)


@dataclass(frozen=True)
class Bias:
    """The biases of all layers."""

    name: ClassVar[str] = "bias"

    def parts(self, graph: Graph) -> Parts:
        """All of each."""
        return dict.fromkeys(bias for layer in layers_of(graph) for bias in layer.biases)


@dataclass(frozen=True)
class Last:
    """The last layers, in the order of the graph's nodes, with all that is read from there on.

    Attributes:
        k: how many nodes with a weight, at least 1.
    """

    name: ClassVar[str] = "last"
    k: int = count(1)

    def __post_init__(self) -> None:
        check_options(self)

    def parts(self, graph: Graph) -> Parts:
        """Weights, biases and normalisations after them."""
        layers = layers_of(graph)
        positions = sorted({layer.position for layer in layers})
        if self.k > len(positions):
            raise UsageError(f"last: k is {self.k}; the model has {len(positions)} layers")
        first = positions[-self.k]
        read = {name for node in graph.nodes[first:] for name in node.input}
        read |= {layer.weight for layer in layers if layer.position >= first}
        return dict.fromkeys(name for name in trainable(graph) if name in read)


@dataclass(frozen=True)
class Sparse:
    """A part of the output channels of the weights of Conv, Gemm and MatMul.

    Attributes:
        layers: glob over the names of weights.
        channels: share of each weight's output channels, in (0, 1].
    """

    name: ClassVar[str] = "sparse"
    layers: str = text("*")
    channels: float = share(0.25)

    def __post_init__(self) -> None:
        check_options(self)

    def parts(self, graph: Graph) -> Parts:
        """A block of each."""
        layers = [layer for layer in layers_of(graph) if fnmatchcase(layer.weight, self.layers)]
        weights = [layer.weight for layer in layers]
        for layer in layers:
            rank = graph.parameters[layer.weight].ndim
            reason = _not_sparse(layer, rank, weights.count(layer.weight))
            if reason:
                raise UnsupportedError(
                    f"no sparse update of {layer}: {reason}",
                    hint="narrow the glob: sparse{layers=GLOB}",
                )
        return {layer.weight: self._block(graph, layer) for layer in layers}

    def _block(self, graph: Graph, layer: Layer) -> Block | None:
        weight = graph.parameters[layer.weight]
        axis = 0 if layer.op_type == "Conv" or layer.transposed else 1
        groups = int(attributes(layer.node).get("group", 1))  # type: ignore[call-overload]
        channels = weight.shape[axis]
        size = max(1, round(self.channels * channels))
        if groups > 1:
            group = channels // groups
            size = size if size < group else group * round(size / group)
        if size == channels:
            return None
        return Block(axis, heaviest(weight, axis, size, channels // groups), size)


def heaviest(weight: np.ndarray, axis: int, size: int, group: int) -> int:
    """Where the block with the largest L2 norm starts; the first of equals.

    Args:
        weight: any tensor.
        axis: of the blocks.
        size: of a block: less than that of a group, or whole groups.
        group: channels of a group; a block crosses the border of no group that it is part of.
    """
    others = tuple(i for i in range(weight.ndim) if i != axis)
    squares = np.square(weight, dtype=np.float64).sum(axis=others)
    starts = [
        start
        for start in range(len(squares) - size + 1)
        if start % group == 0 or start % group + size <= group
    ]
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    return max(starts, key=lambda start: sums[start + size] - sums[start])


def _not_sparse(layer: Layer, rank: int, uses: int) -> str:
    """Why a layer has no sparse update; empty where it has one."""
    if layer.op_type not in ("Conv", "Gemm", "MatMul"):
        return "only weights of Conv, Gemm and MatMul have one"
    if layer.slot != 1:
        return "the weight must be the right operand"
    if layer.op_type != "Conv" and rank != 2:
        return f"the weight must be a matrix; its rank is {rank}"
    return f"it is read by {uses} nodes" if uses > 1 else ""


CHOICES: dict[str, type[Bias | Last | Sparse]] = {kind.name: kind for kind in (Bias, Last, Sparse)}
CHOICE_FORMS = "GLOB, bias, last{k=2} or sparse{layers=GLOB,channels=0.25}"


def read_choice(written: str) -> Choice:
    """Reads one choice.

    Raises:
        UsageError: the text is malformed, or names a choice, an option or a value that is none.
    """
    if written not in CHOICES and "{" not in written:
        return Glob(written)
    return make_choice("selection", written, CHOICES, CHOICE_FORMS)


def trainable(graph: Graph) -> list[str]:
    """Names of the parameters that a gradient may change: all but running statistics."""
    statistics = statistics_of(graph)
    return [name for name in graph.parameters if name not in statistics]
