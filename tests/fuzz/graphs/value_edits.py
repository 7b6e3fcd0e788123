"""Edits of tensors: initializers, inputs, outputs, names, and the file's versions."""

from random import Random
from typing import Any

import numpy as np
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.corpus import node
from tests.fuzz.graphs.editor import Editor, NoPlaceError, pick

_FLOATS = {TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64}
_NAMES = ["1", "a b", "x/y", "é", "weight:0", "a.b.c", "None", "lr", "step", "loss", "z" * 300]
_OPSETS = (7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)


def initializer_shape(rng: Random, editor: Editor) -> None:
    """Other dimensions with the same numbers, or with fewer or more."""
    tensor = pick(rng, editor.weights(is_float=False))
    array = numpy_helper.to_array(tensor)
    forms = [array.T, array.reshape(1, *array.shape), array.reshape(-1)]
    if array.ndim:
        axis = rng.randrange(array.ndim)
        forms += [np.repeat(array, 2, axis), array.take([0], axis), array.take([], axis)]
    _put(tensor, rng.choice(forms))


def initializer_dtype(rng: Random, editor: Editor) -> None:
    """Another dtype, as it is or after a Cast."""
    tensor = pick(rng, editor.weights())
    dtype = rng.choice([*_FLOATS, *_FLOATS, TensorProto.INT8, TensorProto.INT64])
    array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(dtype))
    _put(tensor, array)
    if rng.random() < 0.8:
        _put_behind(editor, tensor, "Cast", to=TensorProto.FLOAT)


def initializer_values(rng: Random, editor: Editor) -> None:
    tensor = pick(rng, editor.weights(is_float=False))
    array = numpy_helper.to_array(tensor).copy()
    if array.dtype.kind == "f":
        array = array * rng.choice([0.0, -1.0, 1e-30, 1e3, 1e10, 1e20, 1e38, np.inf, np.nan])
    elif array.dtype.kind in "iu" and array.size:
        at = rng.randrange(array.size)
        array.reshape(-1)[at] = rng.choice([0, 1, 2, 3, 5, 7, 100])
    else:
        array = ~array if array.dtype == bool else array
    _put(tensor, array.astype(helper.tensor_dtype_to_np_dtype(tensor.data_type)))


def initializer_as_node(rng: Random, editor: Editor) -> None:
    """A Constant node, or an operator that gives the initializer."""
    tensor = pick(rng, editor.weights(is_float=False))
    if rng.random() < 0.5:
        kept = TensorProto()
        kept.CopyFrom(tensor)
        editor.graph.initializer.remove(tensor)
        editor.graph.node.insert(0, node("Constant", "", "constant", value=kept))
        editor.graph.node[0].output[0] = kept.name
        return
    array = numpy_helper.to_array(tensor)
    if array.ndim == 2 and rng.random() < 0.7:
        _put(tensor, array.T)
        _put_behind(editor, tensor, "Transpose", perm=[1, 0])
    else:
        _put_behind(editor, tensor, "Identity")


def initializer_as_input(rng: Random, editor: Editor) -> None:
    """An input, with the initializer as its default or without."""
    tensor = pick(rng, editor.weights(is_float=False))
    if tensor.name in {item.name for item in editor.graph.input}:
        raise NoPlaceError
    made = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    editor.graph.input.append(made)
    if rng.random() < 0.5:
        editor.graph.initializer.remove(tensor)


def shared_initializer(rng: Random, editor: Editor) -> None:
    """Two weights of one shape become one."""
    first = pick(rng, editor.weights(is_float=False))
    same = [
        tensor
        for tensor in editor.weights(is_float=False)
        if tensor.dims == first.dims and tensor.data_type == first.data_type and tensor != first
    ]
    second = pick(rng, same).name
    for each in editor.graph.node:
        each.input[:] = [first.name if name == second else name for name in each.input]


def repeated_initializer(rng: Random, editor: Editor) -> None:
    """A copy of a weight, which one of its readers reads."""
    tensor = pick(rng, editor.weights())
    reader = pick(rng, editor.readers(tensor.name))
    copied = editor.constant(numpy_helper.to_array(tensor), "copy")
    reader.input[list(reader.input).index(tensor.name)] = copied


def input_shape(rng: Random, editor: Editor) -> None:
    """A dimension of an input is another number, or a name."""
    item = pick(rng, list(editor.graph.input))
    dim = pick(rng, list(item.type.tensor_type.shape.dim))
    if rng.random() < 0.4:
        dim.dim_param = rng.choice(["N", "M", "height", "N", ""])
    else:
        dim.dim_value = rng.choice([1, 1, 2, 3, 4, 5, 7, 8, 0])


def input_dtype(rng: Random, editor: Editor) -> None:
    """Another dtype, as it is or after a Cast."""
    item = pick(rng, list(editor.graph.input))
    old = item.type.tensor_type.elem_type
    kinds = [*_FLOATS, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.BOOL]
    item.type.tensor_type.elem_type = pick(rng, [kind for kind in kinds if kind != old])
    if rng.random() < 0.7 and old:
        name = editor.fresh(f"{item.name}_cast")
        _read_instead(editor, item.name, name)
        editor.graph.node.insert(0, _made("Cast", [item.name], name, to=old))


def output_added(rng: Random, editor: Editor) -> None:
    """A value of the graph is an output, too, in front of the others or after them."""
    taken = {item.name for item in editor.graph.output}
    name = pick(rng, [name for name in editor.types if name not in taken])
    made = helper.make_tensor_value_info(name, *editor.types[name])
    outputs = [*editor.graph.output, made]
    if rng.random() < 0.3:
        outputs.reverse()
    kept = [onnx.ValueInfoProto.FromString(each.SerializeToString()) for each in outputs]
    del editor.graph.output[:]
    editor.graph.output.extend(kept)


def output_shape(rng: Random, editor: Editor) -> None:
    """The file does not say which shape an output has, or says it with other names."""
    kind = pick(rng, list(editor.graph.output)).type.tensor_type
    if rng.random() < 0.5:
        kind.ClearField("shape")
        return
    dim = pick(rng, list(kind.shape.dim))
    dim.Clear()
    if rng.random() < 0.5:
        dim.dim_param = rng.choice(["N", "classes", "batch"])


def inner_types(rng: Random, editor: Editor) -> None:
    """Declares the types of all values, or a wrong type of one."""
    known = [name for each in editor.nodes for name in each.output if name in editor.types]
    wrong = pick(rng, known) if rng.random() < 0.3 else ""
    del editor.graph.value_info[:]
    for name in known:
        dtype, shape = editor.types[name]
        shape = tuple(reversed(shape)) if name == wrong else shape
        editor.graph.value_info.append(helper.make_tensor_value_info(name, dtype, shape))


def renamed(rng: Random, editor: Editor) -> None:
    """Another name, wherever the old one stands in the graph."""
    graph = editor.graph
    items = [*graph.input, *graph.initializer, *graph.output]
    names = [item.name for item in items] + [name for each in graph.node for name in each.output]
    old, new = pick(rng, [name for name in names if name]), editor.fresh(rng.choice(_NAMES))
    for item in (*items, *graph.value_info):
        item.name = new if item.name == old else item.name
    for each in graph.node:
        each.input[:] = [new if name == old else name for name in each.input]
        each.output[:] = [new if name == old else name for name in each.output]


def opset(rng: Random, editor: Editor) -> None:
    """The number alone, or the graph converted to it."""
    version = rng.choice(_OPSETS)
    default = pick(rng, [item for item in editor.model.opset_import if not item.domain])
    if rng.random() < 0.5:
        default.version = version
        return
    try:
        converted = onnx.version_converter.convert_version(editor.model, version)
    except Exception as error:
        # ONNX has no way from each version to each other.
        raise NoPlaceError from error
    editor.model.CopyFrom(converted)


def ir_version(rng: Random, editor: Editor) -> None:
    editor.model.ir_version = rng.choice([3, 4, 6, 7, 8, 9, 10, 11, 12])


def _put(tensor: TensorProto, array: np.ndarray) -> None:
    kept = np.ascontiguousarray(array) if array.ndim else array
    tensor.CopyFrom(numpy_helper.from_array(kept, tensor.name))


def _put_behind(editor: Editor, tensor: TensorProto, op_type: str, **attributes: Any) -> None:
    """Inserts an operator after an initializer: the initializer's readers read its result."""
    name = editor.fresh(f"{tensor.name}_{op_type.lower()}")
    _read_instead(editor, tensor.name, name)
    editor.graph.node.insert(0, _made(op_type, [tensor.name], name, **attributes))


def _read_instead(editor: Editor, old: str, new: str) -> None:
    for each in editor.graph.node:
        each.input[:] = [new if name == old else name for name in each.input]


def _made(op_type: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], output, **attributes)


EDITS = (
    *(initializer_shape, initializer_dtype, initializer_values, initializer_as_node),
    *(initializer_as_input, shared_initializer, repeated_initializer, input_shape, input_dtype),
    *(output_added, output_shape, inner_types, renamed, opset, ir_version),
)
