"""Wrong attributes, shapes, dtypes and initializers in a file that is well formed."""

from random import Random

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.fuzz.mutant import Mutant, nodes_of

HUGE = [2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1]
INTS = [0, 1, -1, 2, 7, 100, -(2**31), -(2**63), *HUGE]
FLOATS = [0.0, -0.0, -1.0, 1e30, 1e-30, float("inf"), float("-inf"), float("nan")]
STRINGS = [b"", b"VALID", b"SAME_LOWER", b"NONSENSE", b"\xff\xfe", b"a" * 10000, b"\0"]
DTYPES = [0, 2, 3, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 23, 99, -1, 2**31 - 1]


def attribute_value(rng: Random, mutant: Mutant) -> None:
    attribute = _some_attribute(rng, mutant)
    kind = attribute.type
    if kind == AttributeProto.INT:
        attribute.i = rng.choice(INTS)
    elif kind == AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif kind == AttributeProto.STRING:
        attribute.s = rng.choice(STRINGS)
    elif kind == AttributeProto.INTS:
        changed = list(attribute.ints)
        changed[rng.randrange(len(changed))] = rng.choice(INTS)
        attribute.ints[:] = changed
    else:
        attribute.type = AttributeProto.INT


def attribute_length(rng: Random, mutant: Mutant) -> None:
    lists = [a for n in nodes_of(mutant.model) for a in n.attribute if a.ints]
    attribute = rng.choice(lists) if lists else _some_attribute(rng, mutant)
    count = rng.choice([0, 1, 3, 5, 1000])
    attribute.type = AttributeProto.INTS
    attribute.ints[:] = [rng.choice([0, 1, 1, 1, 2]) for _ in range(count)]


def attribute_type(rng: Random, mutant: Mutant) -> None:
    attribute = _some_attribute(rng, mutant)
    attribute.CopyFrom(
        helper.make_attribute(
            attribute.name,
            rng.choice([1, 1.5, "text", [1, 2], [0.5], ["a"], numpy_helper.from_array(np.eye(2))]),
        )
    )


def attribute_type_alone(rng: Random, mutant: Mutant) -> None:
    """The type says one thing, and the value another."""
    attribute = _some_attribute(rng, mutant)
    attribute.type = rng.choice(list(AttributeProto.AttributeType.values()))


def attribute_missing(rng: Random, mutant: Mutant) -> None:
    nodes = [node for node in nodes_of(mutant.model) if node.attribute]
    node = rng.choice(nodes) if nodes else mutant.model.graph.node[0]
    del node.attribute[rng.randrange(max(len(node.attribute), 1)) :]


def attribute_unknown(rng: Random, mutant: Mutant) -> None:
    node = rng.choice(nodes_of(mutant.model))
    names = ["axis", "axes", "group", "dilations", "strides", "pads", "training_mode", "strange"]
    known = {attribute.name for attribute in node.attribute}
    name = rng.choice([name for name in names if name not in known])
    made = helper.make_attribute(name, rng.choice([rng.choice(INTS), [rng.choice(INTS)] * 2]))
    node.attribute.append(made)


def input_dimension(rng: Random, mutant: Mutant) -> None:
    value = rng.choice(list(mutant.model.graph.input))
    dim = rng.choice(list(value.type.tensor_type.shape.dim))
    dim.dim_value = rng.choice(INTS)


def input_dimensions_overflow(rng: Random, mutant: Mutant) -> None:
    """Each fits; their product does not."""
    for dim in mutant.model.graph.input[0].type.tensor_type.shape.dim[1:]:
        dim.dim_value = rng.choice([2**16, 2**31, 2**32, 2**62])


def input_rank(rng: Random, mutant: Mutant) -> None:
    shape = rng.choice(list(mutant.model.graph.input)).type.tensor_type.shape
    if rng.random() < 0.5 and shape.dim:
        del shape.dim[rng.randrange(len(shape.dim)) :]
    else:
        for _ in range(rng.choice([1, 4, 100])):
            shape.dim.add(dim_value=rng.choice([1, 2]))


def input_symbols(rng: Random, mutant: Mutant) -> None:
    for value in mutant.model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if rng.random() < 0.5:
                dim.dim_param = rng.choice(["N", "", "height", "None", "\0", "-1"])


def input_type(rng: Random, mutant: Mutant) -> None:
    value = rng.choice([*mutant.model.graph.input, *mutant.model.graph.output])
    if rng.random() < 0.7:
        value.type.tensor_type.elem_type = rng.choice(DTYPES)
        return
    kinds = [
        helper.make_sequence_type_proto(value.type),
        helper.make_optional_type_proto(value.type),
        helper.make_map_type_proto(TensorProto.INT64, value.type),
        helper.make_sparse_tensor_type_proto(1, [2, 3]),
        onnx.TypeProto(),
    ]
    value.type.CopyFrom(rng.choice(kinds))


def output_shape(rng: Random, mutant: Mutant) -> None:
    dims = mutant.model.graph.output[0].type.tensor_type.shape.dim
    rng.choice(list(dims)).dim_value = rng.choice(INTS)


def inner_shape(rng: Random, mutant: Mutant) -> None:
    """Changes the declared shape of a value inside the graph."""
    name = rng.choice([name for node in mutant.model.graph.node for name in node.output])
    shape = [rng.choice(INTS) for _ in range(rng.choice([0, 1, 2, 4]))]
    info = helper.make_tensor_value_info(name, rng.choice([1, *DTYPES]), shape)
    mutant.model.graph.value_info.append(info)


def initializer_shape(rng: Random, mutant: Mutant) -> None:
    tensor = _some_initializer(rng, mutant)
    dims = list(tensor.dims) or [1]
    dims[rng.randrange(len(dims))] = rng.choice(INTS)
    tensor.dims[:] = dims if rng.random() < 0.8 else [*dims, 1]


def initializer_reshaped(rng: Random, mutant: Mutant) -> None:
    """The data fits, but not the node that reads it."""
    tensor = _some_initializer(rng, mutant)
    array = numpy_helper.to_array(tensor)
    shapes = [array.reshape(-1), array.reshape(*array.shape, 1), array.T]
    shapes += [array[:1], array[..., :0]] if array.ndim else [np.full((2, 2), array)]
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(rng.choice(shapes)), tensor.name))


def initializer_dtype(rng: Random, mutant: Mutant) -> None:
    tensor = _some_initializer(rng, mutant)
    array = numpy_helper.to_array(tensor)
    dtypes = [np.float16, np.float64, np.int8, np.int32, np.int64, np.uint8, bool, np.complex64]
    tensor.CopyFrom(numpy_helper.from_array(array.astype(rng.choice(dtypes)), tensor.name))


def initializer_dtype_alone(rng: Random, mutant: Mutant) -> None:
    """The data is not of the dtype that the file says."""
    _some_initializer(rng, mutant).data_type = rng.choice(DTYPES)


def initializer_values(rng: Random, mutant: Mutant) -> None:
    tensor = _some_initializer(rng, mutant)
    array = numpy_helper.to_array(tensor).copy()
    if array.dtype == np.float32:
        array[...] = rng.choice([float("nan"), float("inf"), 1e38, 0.0, 1e-40])
    elif array.dtype == np.int64:
        array[...] = rng.choice(INTS)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def initializer_fields(rng: Random, mutant: Mutant) -> None:
    """Data in the field of another dtype, in two fields, or in none."""
    tensor = _some_initializer(rng, mutant)
    if rng.random() < 0.5:
        tensor.ClearField("raw_data")
    getattr(tensor, rng.choice(["float_data", "int64_data", "int32_data", "double_data"])).append(1)


def batch_option(rng: Random, mutant: Mutant) -> None:
    mutant.options = {"batch": rng.choice([None, 0, -1, 1, 3, 2**20, 2**20 + 1, 2**31, 2**63])}


def _some_attribute(rng: Random, mutant: Mutant) -> AttributeProto:
    """An attribute of some node; one is made where there is none."""
    found = [attribute for node in nodes_of(mutant.model) for attribute in node.attribute]
    if found:
        return rng.choice(found)
    mutant.model.graph.node[0].attribute.append(helper.make_attribute("axis", 1))
    return mutant.model.graph.node[0].attribute[-1]


def _some_initializer(rng: Random, mutant: Mutant) -> TensorProto:
    return rng.choice(list(mutant.model.graph.initializer))


MUTATIONS = (
    *(attribute_value, attribute_length, attribute_type, attribute_type_alone),
    *(attribute_missing, attribute_unknown, input_dimension, input_dimensions_overflow),
    *(input_rank, input_symbols, input_type, output_shape, inner_shape, initializer_shape),
    *(initializer_reshaped, initializer_dtype, initializer_dtype_alone, initializer_values),
    *(initializer_fields, batch_option),
)
