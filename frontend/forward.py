"""A forward graph of an ONNX model for given inputs: any dtype, all outputs, nothing trained."""

from collections.abc import Mapping

import numpy as np
import onnx

from odtc.core.errors import UnsupportedError
from odtc.core.specs import TensorSpec
from odtc.frontend.coverage import DTYPES, require_runnable
from odtc.frontend.file.onnx_file import modern
from odtc.frontend.file.specialize import check_domains, read_graph
from odtc.frontend.file.training_mode import expand_training_mode
from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.normalize.constants import fold_and_infer
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.normalize.resolve import resolve
from odtc.frontend.normalize.widen import widen_bfloat16
from odtc.frontend.patterns.random_masks import DRAWING


def inference_graph(
    model: onnx.ModelProto,
    inputs: tuple[TensorSpec, ...],
    bound: Mapping[str, np.ndarray],
) -> Graph:
    """The normalised graph of a model.

    Args:
        model: a checked ONNX model.
        inputs: what is fed at each run; bfloat16 becomes float32, there and in the whole graph.
        bound: inputs that are constants of the program.

    Raises:
        ModelError: the shapes do not fit together.
        UnsupportedError: a node cannot be run; the message says why.
    """
    model = modern(model)
    check_domains(model)
    graph = read_graph(model, bakes_constants=True)
    graph.inputs = inputs
    graph.constants |= bound
    widen_bfloat16(graph)
    fold_and_infer(graph)
    while resolve(graph):
        fold_and_infer(graph)
    expand_training_mode(graph)
    graph.drop_unused()
    require_runnable(graph)
    _require_held(graph)
    _require_no_draws(graph)
    return normalize(graph)


def _require_held(graph: Graph) -> None:
    """Outputs that are known when the model is compiled are of dtypes that programs hold."""
    for name in graph.outputs:
        value = graph.constants.get(name)
        if value is not None and value.dtype.name not in DTYPES:
            raise UnsupportedError(
                f"the dtype {value.dtype.name} of {name!r} is not supported",
                where=f"output {name}",
                hint="export the model with another type",
            )


def _require_no_draws(graph: Graph) -> None:
    """Random numbers follow from the step that draws them, and here there is none."""
    for node in graph.nodes:
        if node.op_type in DRAWING:
            raise UnsupportedError(
                "random numbers are drawn in training steps and in their evaluation only",
                where=f"node {describe_node(node)}",
                hint="compile the model, and evaluate it",
            )
