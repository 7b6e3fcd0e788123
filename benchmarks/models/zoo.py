"""Nine classic image models as ordinary ONNX files, made without a download.

The onnx wheel carries their graphs as exported for the ONNX model zoo (opset 9, batch 1), with most
weights left out: a ConstantOfShape node stands in for each. Here every stand-in becomes an
initializer of its name and shape, drawn as one would before training; nothing else is touched.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import helper, numpy_helper

_GRAPHS = Path(onnx.backend.test.__file__).parent / "data" / "light"

# What a weight may pass through on its way to the node that gives it its role.
_PASSED_THROUGH = frozenset({"Reshape", "Unsqueeze"})
# The (operator, input index) of the weights that start at one; other vectors start at zero.
_ONES = frozenset({("BatchNormalization", 1), ("BatchNormalization", 4), ("Mul", 1)})


def zoo_names() -> tuple[str, ...]:
    """Names of the models, such as 'resnet50'."""
    return tuple(sorted(file.stem.removeprefix("light_") for file in _GRAPHS.glob("light_*.onnx")))


def zoo_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """A zoo model with weights.

    Args:
        name: one of `zoo_names()`.
        seed: of the He-normal Conv and Gemm weights (He et al. 2015, fan-in).

    Raises:
        ValueError: there is no such model.
    """
    if name not in zoo_names():
        raise ValueError(f"no zoo model {name!r}; there are {', '.join(zoo_names())}")
    model = onnx.load(_GRAPHS / f"light_{name}.onnx")
    _fill_in_weights(model.graph, np.random.default_rng(seed))
    onnx.checker.check_model(model)
    return model


def _fill_in_weights(graph: onnx.GraphProto, rng: np.random.Generator) -> None:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    readers = {name: (node, at) for node in graph.node for at, name in enumerate(node.input)}
    stand_ins = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    weights = {
        node.output[0]: _initial(
            tuple(numpy_helper.to_array(constants[node.input[0]])),
            *_role(readers, node.output[0]),
            rng,
        )
        for node in stand_ins
    }
    _drop_named(graph.initializer, {node.input[0] for node in stand_ins})
    _drop_named(graph.input, {node.input[0] for node in stand_ins})
    del graph.node[:]
    graph.node.extend(kept)
    # Up to IR version 3, which these files have, an initializer is also an input of the graph.
    for name, value in weights.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
        dtype = onnx.TensorProto.FLOAT
        graph.input.append(helper.make_tensor_value_info(name, dtype, value.shape))


def _role(readers: dict[str, tuple[onnx.NodeProto, int]], weight: str) -> tuple[str, int]:
    """The operator that a weight serves, and as which of its inputs."""
    node, at = readers[weight]
    if node.op_type in _PASSED_THROUGH:
        return _role(readers, node.output[0])
    return node.op_type, at


def _initial(shape: tuple[int, ...], op_type: str, at: int, rng: np.random.Generator) -> np.ndarray:
    """The float32 values that a weight of this role starts with."""
    if op_type in ("Conv", "Gemm") and at == 1:
        # All Gemms of the zoo have transB, so the inputs of a neuron are the last dimension.
        fan_in = math.prod(shape[1:]) if op_type == "Conv" else shape[-1]
        return rng.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / fan_in))
    return np.full(shape, float((op_type, at) in _ONES), np.float32)


def _drop_named(repeated, names: set[str]) -> None:
    """Removes the entries of a repeated protobuf field that have one of these names."""
    kept = [entry for entry in repeated if entry.name not in names]
    del repeated[:]
    repeated.extend(kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes a zoo model with initial weights.")
    parser.add_argument("name", choices=zoo_names())
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    onnx.save(zoo_model(options.name, options.seed), options.output)
