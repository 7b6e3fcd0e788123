"""A forward graph of an ONNX model for given inputs: any dtype, all outputs, nothing trained."""

from collections.abc import Mapping

import numpy as np
import onnx

from odtc.core.specs import TensorSpec
from odtc.frontend.coverage import require_runnable
from odtc.frontend.graph import Graph
from odtc.frontend.normalize.constants import fold_and_infer
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.normalize.resolve import resolve
from odtc.frontend.onnx_file import modern
from odtc.frontend.specialize import check_domains, is_weight, read_graph
from odtc.frontend.training_mode import expand_training_mode


def inference_graph(
    model: onnx.ModelProto,
    inputs: tuple[TensorSpec, ...],
    bound: Mapping[str, np.ndarray],
) -> Graph:
    """The normalised graph of a model.

    Args:
        model: a checked ONNX model.
        inputs: what is fed at each run.
        bound: inputs that are constants of the program.

    Raises:
        ModelError: the shapes do not fit together.
        UnsupportedError: a node cannot be run; the message says why.
    """
    model = modern(model)
    check_domains(model)
    graph = read_graph(model)
    graph.inputs = inputs
    graph.constants |= bound
    fold_and_infer(graph)
    while resolve(graph, is_weight):
        fold_and_infer(graph)
    expand_training_mode(graph)
    graph.drop_unused()
    require_runnable(graph)
    return normalize(graph)
