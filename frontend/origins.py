"""The ONNX tensors of a graph, numbered, so that variables can name the tensor that they hold.

See `odtc.core.ir.tensor_tags`. Nodes that normalisation put in the place of another one have its
name.
"""

from collections.abc import Mapping

import tvm_ffi
from tvm import ir, relax

from odtc.core.artifact.memory_plan import Origin
from odtc.core.ir.tensor_tags import Tag
from odtc.frontend.graph import Graph

# The loss comes first: it belongs to no node.
LOSS = Tag(0)


def origins_of(graph: Graph) -> dict[str, Origin]:
    """Where each tensor of a graph comes from; the place of a tensor is its number.

    Of inputs, parameters and labels the node is empty.
    """
    arguments = (*graph.inputs, *graph.parameter_specs(), *graph.labels)
    origins = {"": Origin("loss")} | {spec.name: Origin("", spec.name) for spec in arguments}
    for node in graph.nodes:
        label = node.name or f"-> {next(filter(None, node.output), node.op_type)}"
        for name in filter(None, node.output):
            origins[name] = Origin(label, graph.originals.get(name, name))
    # An output may be a constant.
    return origins | {name: Origin("", name) for name in graph.outputs if name not in origins}


def tags_of_tensors(graph: Graph) -> dict[str, Tag]:
    """The tag of each tensor of a graph."""
    return {name: Tag(number) for number, name in enumerate(origins_of(graph))}


def tagged(function: relax.Function, tags: Mapping[relax.Var, Tag]) -> relax.Function:
    """The function with variables named by tags; arguments keep their names."""
    bound = {binding.var for block in function.body.blocks for binding in block.bindings}
    new = {var: type(var)(str(tag), var.ty) for var, tag in tags.items() if var in bound}
    return tvm_ffi.structural_map(function, (ir.Var, lambda var: new.get(var, var)))
