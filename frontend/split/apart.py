"""Shows that a graph computes each sample on its own, whatever the batch.

The graph of the whole batch and that of a part are walked side by side. They have to be the same
nodes over the same values; where shapes differ is the batch. Each operator's rule has to say where
the samples are in its results, and both graphs' shapes have to agree with that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from odtc.core.errors import ModelError, UnsupportedError
from odtc.core.ir.place import Place
from odtc.frontend.graph import Graph, attributes, describe_node, samples_of
from odtc.frontend.operators.operator import Node
from odtc.frontend.operators.slicing import spans
from odtc.frontend.split.place import RULES, Places

Shape = tuple[int, ...]
_ANOTHER = "the model is another one with a smaller batch"
# Inputs that only say which shape a result has: the results' shapes are compared.
_SHAPES = {"ConstantOfShape": (0,), "Expand": (1,), "Reshape": (1,), "Resize": (3,)}
# They give each sample of their result the same, or numbers of its own.
_REPEATING = frozenset({"ConstantOfShape", "Expand", "RandomUniform"})


@dataclass(frozen=True)
class Found:
    """The axes along which the samples lie, as far as they are known.

    Attributes:
        places: by tensor of the whole batch's graph, for those that hold some.
        lost: why nothing is known of other tensors; the first of them says what it begins with.
    """

    places: dict[str, Place]
    lost: dict[str, UnsupportedError]


def places_of(whole: Graph, part: Graph) -> dict[str, Place]:
    """Where the samples lie in each tensor of the whole batch's graph that holds some.

    Args:
        whole: normalised, of a batch of at least 2.
        part: the same model, normalised with a smaller batch.

    Raises:
        UnsupportedError: a sample's results may depend on other samples, or on the batch.
    """
    found = find_places(whole, part)
    if found.lost:
        raise next(iter(found.lost.values()))
    return found.places


def find_places(whole: Graph, part: Graph) -> Found:
    """The same, as far as they can be followed.

    Raises:
        UnsupportedError: the graphs have other nodes, or read other inputs.
        ModelError: the model cannot take one of the batches.
    """
    # A recurrence of one step reads no weights of its state: these are no inputs there.
    if [spec.name for spec in whole.inputs] != [spec.name for spec in part.inputs]:
        raise UnsupportedError(_ANOTHER)
    walk = _Walk(whole, part)
    for spec, other in zip(whole.inputs, part.inputs, strict=True):
        walk.feed(spec.name, spec.shape, other.shape)
    in_use = whole.names_in_use()
    for node, other in zip(whole.nodes, part.nodes, strict=False):
        if not _is_same(node, other):
            raise _refused(_ANOTHER, node)
        walk.follow(Node(whole, node, in_use), Node(part, other))
    if len(whole.nodes) != len(part.nodes):
        raise UnsupportedError(_ANOTHER)
    return Found(walk.places, walk.lost)


class _Walk:
    """The state of the walk over both graphs' tensors."""

    def __init__(self, whole: Graph, part: Graph) -> None:
        self._whole, self._part = whole, part
        self._batches = samples_of(whole), samples_of(part)
        # What the part calls a tensor, to what the whole does.
        self._names: dict[str, str] = {}
        self.places: dict[str, Place] = {}
        self.lost: dict[str, UnsupportedError] = {}

    def feed(self, name: str, shape: Shape, other: Shape) -> None:
        """An input, which may be the same for all samples."""
        place = self._whole.places.get(name)
        if self._fits(place, shape, other) if place else shape == other:
            if place:
                self.places[name] = place
            return
        self.lost[name] = UnsupportedError(
            f"the input has shape {list(shape)} for {self._batches[0]} samples, and "
            f"{list(other)} for {self._batches[1]}: it holds no entry for each",
            where=f"input {name}",
        )

    def follow(self, node: Node, other: Node) -> None:
        """A node, in both graphs; what cannot be followed is lost, with all that reads it."""
        for name, again in zip(node.proto.output, other.proto.output, strict=True):
            self._names[again] = name
        try:
            for name in node.inputs:
                if name in self.lost:
                    raise self.lost[name]
            _check_size(node)
            _check_size(other)
            self.step(node, other)
        except UnsupportedError as error:
            self.lost |= dict.fromkeys(node.proto.output, error)

    def step(self, node: Node, other: Node) -> None:
        """A node, in both graphs."""
        held = [self._place_in(node, other, slot) for slot in range(len(node.inputs))]
        given = self._results(node, held) if any(held) else self._repeated(node, other)
        if node.proto.op_type == "Slice" and spans(node) != spans(other):
            given = None
        if given is None:
            raise _refused("nothing shows that it computes each sample independently", node.proto)
        for slot, (name, place) in enumerate(zip(node.proto.output, given, strict=False)):
            if slot and not node.is_read(slot):
                continue
            if not self._agrees(name, other.output_shape(slot), place):
                raise _refused("its results hold no entry for each sample", node.proto)
            if place is not None:
                self.places[name] = place

    def _place_in(self, node: Node, other: Node, slot: int) -> Place | None:
        """Where the samples lie in an input; a constant may hold the same for each of them."""
        name = node.inputs[slot]
        value = node.constant(slot)
        again = other.constant(slot)
        if value is None and again is None and self._names.get(other.inputs[slot], name) == name:
            return self.places.get(name)
        if value is None or again is None:
            raise _refused(_ANOTHER, node.proto)
        if _equal(value, again) or slot in _SHAPES.get(node.proto.op_type, ()):
            return None
        if node.proto.op_type == "Slice" and slot:
            return None
        place = self._differing(value.shape, again.shape)
        if place is None or not _equal(value.take([0], place.axis), again.take([0], place.axis)):
            raise _refused(f"its constant {name!r} depends on the batch", node.proto)
        if (value != value.take([0], place.axis)).any():
            raise _refused(f"its constant {name!r} differs between samples", node.proto)
        return place

    def _results(self, node: Node, held: Places) -> Sequence[Place] | None:
        rule = RULES.get(node.proto.op_type)
        places = rule(node, held) if rule else None
        return [places] * len(node.proto.output) if isinstance(places, Place) else places

    def _repeated(self, node: Node, other: Node) -> Sequence[Place | None]:
        """Results that hold no sample, unless each of them is given the same, or random numbers."""
        shape, again = node.output_shape(), other.output_shape()
        if node.proto.op_type not in _REPEATING or shape is None or again is None:
            return [None] * len(node.proto.output)
        return [self._differing(shape, again)]

    def _differing(self, shape: Shape, other: Shape) -> Place | None:
        """The only axis along which shapes differ, where it has an index for each sample."""
        axes = [
            axis for axis, pair in enumerate(zip(shape, other, strict=False)) if len({*pair}) > 1
        ]
        place = Place(axes[0]) if axes else None
        return place if place and self._fits(place, shape, other) else None

    def _agrees(self, name: str, other: Shape | None, place: Place | None) -> bool:
        shape = self._whole.shapes.get(name)
        if shape is None or other is None:
            return False
        return shape == other if place is None else self._fits(place, shape, other)

    def _fits(self, place: Place, shape: Shape, other: Shape) -> bool:
        """Whether samples can lie there in a tensor that has these shapes."""
        if place.axis >= min(len(shape), len(other)):
            return False
        many = place.outer * place.inner
        for each, batch in zip((shape, other), self._batches, strict=True):
            if each[place.axis] != many * batch:
                return False
        return _without(shape, place.axis) == _without(other, place.axis)


def _check_size(node: Node) -> None:
    """Checks that a Reshape keeps the number of elements, which shape inference takes for granted.

    Raises:
        ModelError: it does not.
    """
    new = node.output_shape() if node.proto.op_type == "Reshape" else None
    if new is not None and math.prod(new) != math.prod(node.shape()):
        raise ModelError(
            f"it makes {list(new)} of {list(node.shape())}: the model fixes the batch",
            where=f"node {describe_node(node.proto)}",
        )


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _equal(value: np.ndarray, other: np.ndarray) -> bool:
    same = value.shape == other.shape and value.dtype == other.dtype
    return same and value.tobytes() == other.tobytes()


def _is_same(node: onnx.NodeProto, other: onnx.NodeProto) -> bool:
    """Whether two nodes are alike but for the tensors; attributes may hold arrays."""
    heads = [(each.op_type, len(each.output), len(each.input)) for each in (node, other)]
    return heads[0] == heads[1] and _settings(node) == _settings(other)


def _settings(node: onnx.NodeProto) -> str:
    """Attributes; the results' shapes are compared, wherever they are said."""
    given = attributes(node)
    if node.op_type == "RandomUniform":
        del given["shape"]
    return repr(given)


def _refused(why: str, node: onnx.NodeProto) -> UnsupportedError:
    return UnsupportedError(why, where=f"node {describe_node(node)}")
