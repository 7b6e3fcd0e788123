"""A model whose large weights are arrays beside it, until it is written.

Protobuf copies what it is given, keeps what is taken out of a message for as long as that lives,
and needs as much again to encode it. So an initializer whose elements are elsewhere has the form of
ONNX's external data, with the name of a weight in place of a file's; what is small has its elements
inside.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from odtc.core.disk.files import atomic_write
from odtc.core.onnx_model import large_files
from odtc.core.onnx_model.wire import field_head

# Numbers of fields in ONNX's messages.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
# Systems map files from multiples of it.
_PAGE = 4096


@dataclass
class PlacedModel:
    """A model, and the weights that are not in it.

    Attributes:
        model: its initializers may have places.
        weights: arrays without gaps, by the name in a place.
    """

    model: onnx.ModelProto
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def place(self, tensor: TensorProto, array: np.ndarray) -> None:
        """Takes the elements of an initializer from an array, from now on."""
        name, dims, kind = tensor.name, list(tensor.dims), tensor.data_type
        tensor.CopyFrom(place_of(name, dims, kind))
        self.weights[name] = array

    def array_of(self, tensor: TensorProto) -> np.ndarray:
        """The elements of an initializer, wherever they are."""
        key = _key(tensor)
        return numpy_helper.to_array(tensor) if key is None else self.weights[key]

    def save(self, path: str | os.PathLike[str]) -> bool:
        """Writes the model, whole or not at all; no weight is copied.

        Returns:
            Whether the weights are in a file beside it, as it is above 2 GB.

        Raises:
            OutputError: a file cannot be written.
        """
        is_large = sum(map(len, self._encoded())) > large_files.LARGEST
        if is_large:
            with large_files.new_pair(path) as temporary:
                model = onnx.ModelProto()
                model.CopyFrom(self.model)
                self.write_beside(temporary, model)
        else:
            with atomic_write(path) as temporary, temporary.open("wb") as file:
                file.writelines(self._encoded())
        return is_large

    def write_beside(self, path: Path, model: onnx.ModelProto) -> None:
        """Writes another form of the model, and the weights into a file beside it.

        Args:
            path: of the model; the weights are at its name with `.data` behind.
            model: with places of these weights; they become those of the file, as do all that are
                not small.
        """
        data = path.with_name(path.name + large_files.BESIDE)
        with data.open("wb") as file:
            for tensor in model.graph.initializer:
                if (elements := self._elements(tensor)) is None:
                    continue
                file.write(b"\0" * (-file.tell() % _PAGE))
                where = {"location": data.name, "offset": str(file.tell())}
                file.write(elements)
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
                del tensor.external_data[:]
                for each, value in (where | {"length": str(len(elements))}).items():
                    tensor.external_data.add(key=each, value=value)
        path.write_bytes(model.SerializeToString())

    def _elements(self, tensor: TensorProto) -> memoryview | bytes | None:
        """What is written beside the model; None of what is small."""
        key = _key(tensor)
        if key is not None:
            return _bytes_of(self.weights[key])
        return tensor.raw_data if len(tensor.raw_data) >= large_files.LEAST else None

    def _encoded(self) -> Iterator[bytes | memoryview]:
        """The parts of the file: what is small first, then the initializers in their order."""
        rest, graph = onnx.ModelProto(), onnx.GraphProto()
        rest.CopyFrom(self.model)
        graph.CopyFrom(rest.graph)
        rest.ClearField("graph")
        del graph.initializer[:]
        inner = graph.SerializeToString()
        tensors = [[*self._parts(tensor)] for tensor in self.model.graph.initializer]
        sizes = [sum(map(len, parts)) for parts in tensors]
        heads = [field_head(_INITIALIZER, size) for size in sizes]
        yield rest.SerializeToString()
        yield field_head(_GRAPH, len(inner) + sum(sizes) + sum(map(len, heads)))
        yield inner
        for head, parts in zip(heads, tensors, strict=True):
            yield head
            yield from parts

    def _parts(self, tensor: TensorProto) -> Iterator[bytes | memoryview]:
        key = _key(tensor)
        if key is None:
            yield tensor.SerializeToString()
            return
        inside = TensorProto()
        inside.CopyFrom(tensor)
        inside.ClearField("external_data")
        inside.ClearField("data_location")
        data = _bytes_of(self.weights[key])
        yield inside.SerializeToString()
        yield field_head(_RAW_DATA, len(data))
        yield data


def place_of(name: str, dims: list[int], kind: int) -> TensorProto:
    """An initializer whose elements are those of the weight of its name."""
    place = TensorProto(name=name, dims=dims, data_type=kind, data_location=TensorProto.EXTERNAL)
    place.external_data.add(key="location", value=name)
    return place


def _key(tensor: TensorProto) -> str | None:
    """The name of the weight that an initializer has the place of; None where it has elements."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    return next(each.value for each in tensor.external_data if each.key == "location")


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
