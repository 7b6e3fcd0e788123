"""Normalised ONNX graph to Relax: `forward(inputs..., parameters...) -> logits`."""

import io
import warnings
from contextlib import redirect_stdout

from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph

# The importer refuses a model with whichever of Python's errors its converter happens to meet.
_REFUSALS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(NotImplementedError, RuntimeError, TypeError, ValueError),
)


def import_forward(graph: Graph) -> relax.Function:
    """The inference function of a normalised graph, as one dataflow block.

    Its arguments are the inputs and then the parameters, in the graph's order; constants are bound.

    Raises:
        UnsupportedError: TVM's importer refuses the graph.
    """
    model = graph.to_model()
    # Names are free text in ONNX; the importer wants identifiers. Position is what counts.
    for index, value in enumerate(model.graph.input):
        rename = {value.name: f"arg{index}"}
        value.name = f"arg{index}"
        for node in model.graph.node:
            for slot, name in enumerate(node.input):
                node.input[slot] = rename.get(name, name)
    try:
        # It prints to stdout, which is for data.
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            module = from_onnx(model, opset=graph.opset)
    except _REFUSALS as error:
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise UnsupportedError(
            f"TVM's importer refuses the model: {reason[0]}",
            hint="`odtc check MODEL` lists the operators; please report this model",
        ) from error
    return module["main"]
