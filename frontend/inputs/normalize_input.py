"""Puts a normalisation in front of a model, as nodes of the model.

    pixels, uint8 -> Cast -> Sub 255 mean -> Div 255 std -> what read the input
    rows, floats  ---------> Sub     mean -> Div     std -> what read the input

The model keeps it wherever it goes: a step, its evaluation, the exported file, an app. A constant
that is subtracted from an input is no parameter to anybody (`frontend/weights/evidence/rule.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.onnx_model.weight_places import bodies_of
from odtc.frontend.feeds import Feed, feeds_of
from odtc.frontend.file.onnx_file import OLDEST_OPSET, opset_of
from odtc.frontend.graph import onnx_dtype
from odtc.frontend.heads.tensors import fresh_name
from odtc.frontend.inputs.normalization import Normalize

_CHANNELS = (1, 3, 4)
_IMAGE, _ROW = 4, 2
_LARGEST_BYTE = 255.0
_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class _Place:
    """Where a normalisation goes.

    Attributes:
        feed: the input.
        axis: of its channels or features.
    """

    feed: Feed
    axis: int

    @property
    def is_image(self) -> bool:
        return len(self.feed.dims) == _IMAGE

    def shaped(self, values: Iterable[float], kind: int) -> np.ndarray:
        """Numbers of channels so that they broadcast to the input, of a type of ONNX."""
        array = np.array(tuple(values), np.float64) * (_LARGEST_BYTE if self.is_image else 1.0)
        shape = (-1, *[1] * (len(self.feed.dims) - 1 - self.axis))
        return array.astype(helper.tensor_dtype_to_np_dtype(kind)).reshape(shape)


def normalize_input(model: onnx.ModelProto, asked: Normalize) -> dict[str, str]:
    """Normalises an input, in place; its name, and what is to be said of it.

    Args:
        model: a checked ONNX model.
        asked: with what.

    Raises:
        UsageError: no input has such channels, or several have.
        UnsupportedError: the operators of the model are too old, or it gives its input back.
    """
    place = _place_in(model, asked)
    name, dtype = place.feed.name, place.feed.dtype
    graph = model.graph
    if opset_of(model) < OLDEST_OPSET:
        raise UnsupportedError(
            f"the model is of opset {opset_of(model)}, which cannot normalise by channel",
            where="normalize",
            hint=f"export it with opset {OLDEST_OPSET} or later",
        )
    if any(value.name == name for value in graph.output):
        raise UnsupportedError(
            f"the model gives its input {name!r} back as an output",
            where="normalize",
            hint="export it without that output",
        )
    normalized = fresh_name(graph, f"{name}.normalized")
    _read_instead(graph.node, name, normalized)
    for node in reversed([*_nodes(graph, place, asked, normalized)]):
        graph.node.insert(0, node)
    what = f"rows as they are ({dtype})"
    if place.is_image:
        what = "pixels from 0 to 255 (uint8)"
        value = next(each for each in graph.input if each.name == name)
        value.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return {name: f"takes {what}, normalised in the model by {asked}"}


def _nodes(
    graph: onnx.GraphProto, place: _Place, asked: Normalize, result: str
) -> Iterator[onnx.NodeProto]:
    name, kind = place.feed.name, onnx_dtype(place.feed.dtype)
    computed = kind if kind == onnx.TensorProto.DOUBLE else onnx.TensorProto.FLOAT
    mean, std = (fresh_name(graph, f"{name}.{part}") for part in ("mean", "std"))
    for constant, values in ((mean, asked.means), (std, asked.deviations)):
        tensor = numpy_helper.from_array(place.shaped(values, computed), constant)
        yield helper.make_node("Constant", [], [constant], value=tensor)
    chain: list[tuple[str, list[str], dict[str, Any]]] = [("Sub", [mean], {}), ("Div", [std], {})]
    if place.is_image or kind != computed:
        chain.insert(0, ("Cast", [], {"to": computed}))
    if kind != computed:
        chain.append(("Cast", [], {"to": kind}))
    held = name
    for number, (operator, others, attributes) in enumerate(chain, 1):
        given = result if number == len(chain) else fresh_name(graph, f"{name}.step{number}")
        label = f"{name}.normalize{number}"
        yield helper.make_node(operator, [held, *others], [given], label, **attributes)
        held = given


def _read_instead(nodes: Iterable[onnx.NodeProto], name: str, other: str) -> None:
    """Lets nodes, and those of their bodies, read another tensor."""
    for node in nodes:
        for slot, read in enumerate(node.input):
            if read == name:
                node.input[slot] = other
        for body in bodies_of(node):
            _read_instead(body.node, name, other)
            for value in body.output:
                if value.name == name:
                    value.name = other


def _place_in(model: onnx.ModelProto, asked: Normalize) -> _Place:
    """The input that is normalised.

    Raises:
        UsageError: none has such channels, or several have.
    """
    feeds = feeds_of(model)
    named = [feed for feed in feeds if asked.input in (None, feed.name)]
    found = [place for feed in named if (place := _place(feed, len(asked.means)))]
    # Rows beside an image are something else.
    images = [place for place in found if place.is_image]
    found = images or found
    if len(found) == 1:
        return found[0]
    said = ", ".join(f"{feed.name} {feed.dtype} {_dims(feed)}" for feed in feeds)
    count = len(asked.means)
    if found:
        raise UsageError(
            f"several inputs may be normalised: {said}",
            where="normalize",
            hint=f"name one: input={found[0].feed.name}",
        )
    channels = f"{count} channels" if count > 1 else "1, 3 or 4 channels"
    features = f"{count} features" if count > 1 else "features"
    raise UsageError(
        f"no input of floats is an image of {channels} or a row of {features}; the model takes "
        f"{said}",
        where="normalize" if asked.input is None else f"normalize: input {asked.input}",
        hint="give a mean and a deviation for each channel; one that takes uint8 has its "
        "normalisation inside",
    )


def _place(feed: Feed, count: int) -> _Place | None:
    """Where an input has so many channels, or any number for one; None where it has none."""
    if feed.dtype not in _FLOATS:
        return None
    axes = {_IMAGE: (1, 3), _ROW: (1,)}.get(len(feed.dims), ())
    sizes = {axis: feed.dims[axis] for axis in axes}
    fits = (
        axis
        for axis, size in sizes.items()
        if count in {size, 1} and (size in _CHANNELS or len(feed.dims) == _ROW)
    )
    axis = next(fits, None)
    return None if axis is None else _Place(feed, axis)


def _dims(feed: Feed) -> str:
    return f"[{', '.join(str(dim) if dim != '' else '?' for dim in feed.dims)}]"
