"""The convolutions and matrix products of a model."""

import math

import onnx

from benchmarks.kernel_time.products import ProductLayer
from odtc.comparison.measures.workload import FLOPS
from odtc.frontend.file.specialize import specialize
from odtc.frontend.normalize.pipeline import normalize


def layers_of(model: onnx.ModelProto, batch: int) -> list[ProductLayer]:
    """The convolutions and matrix products that a step of the model has."""
    graph = specialize(model, batch)
    normalize(graph)
    shapes = graph.shapes | {name: value.shape for name, value in graph.parameters.items()}
    size = {name: math.prod(shape) for name, shape in shapes.items()}
    names: dict[tuple[tuple[int, int, int], int], list[str]] = {}
    for node in graph.nodes:
        if node.op_type in FLOPS:
            x, w, y = node.input[0], node.input[1], node.output[0]
            key = ((size[x], size[w], size[y]), FLOPS[node.op_type](node, shapes))
            label = next((n for n in (w, x) if n in graph.parameters), node.name or y)
            names.setdefault(key, []).append(label)
    return [ProductLayer(tuple(each), *key) for key, each in names.items()]
