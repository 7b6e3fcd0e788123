"""ONNX's `Gradient` node: derivatives of one value of a graph by its inputs."""

from dataclasses import dataclass

import onnx
import tvm
from tvm import relax

from odtc.core.errors import UnsupportedError
from odtc.frontend.backward.rebuild import builder_with_kernels, replay_body, tuple_fields
from odtc.frontend.file.preview_training import DOMAIN
from odtc.frontend.gradients.table import register_gradients
from odtc.frontend.graph import attributes
from odtc.frontend.importer import FORWARD

_LOSS = "odtc_sum"


@dataclass(frozen=True)
class GradientNode:
    """A node that was taken out of a graph.

    Attributes:
        y: name of the value that is derived; of a tensor, the sum of its elements.
        inputs: names of the graph's inputs that it is derived by.
        outputs: names of the derivatives, in that order.
    """

    y: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def take_gradient(model: onnx.ModelProto) -> tuple[onnx.ModelProto, GradientNode | None]:
    """The model without its Gradient node, and that node; `y` follows the outputs that are left.

    Raises:
        UnsupportedError: there are several, or it is not at the end of the graph.
    """
    nodes = [n for n in model.graph.node if (n.domain, n.op_type) == (DOMAIN, "Gradient")]
    if not nodes:
        return model, None
    node = nodes[0]
    fed = {value.name for value in model.graph.input}
    read = {name for other in model.graph.node for name in other.input}
    names = tuple(map(bytes.decode, attributes(node)["xs"]))  # type: ignore[arg-type]
    if len(nodes) > 1 or not fed.issuperset(names) or read.intersection(node.output):
        raise UnsupportedError(
            "only one Gradient node is supported, with respect to inputs of the graph, and no node "
            "may read its outputs",
            where=f"node {node.name or node.output[0]}",
            hint="remove the Gradient nodes: odtc derives the training step itself",
        )
    y = str(attributes(node)["y"])
    kept = onnx.ModelProto()
    kept.CopyFrom(model)
    del kept.graph.node[:], kept.graph.output[:]
    kept.graph.node.extend(n for n in model.graph.node if n is not node)
    outputs = [value for value in model.graph.output if value.name not in node.output]
    kept.graph.output.extend([*outputs, onnx.ValueInfoProto(name=y)])
    return kept, GradientNode(y, names, tuple(node.output))


def with_gradient(module: tvm.IRModule, node: GradientNode, inputs: list[str]) -> tvm.IRModule:
    """`forward` with the derivatives of its last result: `((sum, results...), derivatives)`.

    Args:
        module: what the importer gives.
        node: what to derive.
        inputs: names of the arguments of `forward`.
    """
    register_gradients()
    forward = module[FORWARD]
    builder = builder_with_kernels(module)
    variables = dict(zip(inputs, forward.params, strict=False))
    with builder.function(_LOSS, forward.params):
        with builder.dataflow():
            replay_body(builder, forward)
            results = _results(forward)
            total = builder.emit(relax.op.sum(results[-1]))
            left = [builder.emit_output(value) for value in (total, *results[:-1])]
        builder.emit_func_output(relax.Tuple(left))
    by = [variables[name] for name in node.inputs]
    adjoint = relax.transform.Gradient(_LOSS, by, target_index=0)(builder.finalize())
    adjoint[FORWARD] = adjoint[f"{_LOSS}_adjoint"]
    del adjoint[_LOSS], adjoint[f"{_LOSS}_adjoint"]
    return adjoint


def _results(forward: relax.Function) -> list[relax.Expr]:
    """The results, as variables of the dataflow block."""
    (block,) = forward.body.blocks
    inside = {b.var: b.value for b in block.bindings}
    result = inside.get(forward.body.body, forward.body.body)
    return list(tuple_fields(result))
