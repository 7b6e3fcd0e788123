"""Tells stored tensors from results of the same name, which PyTorch's exporter may write.

Without its optimizer, a buffer `mean` and the result of `x.mean()` share a name. Nodes say which of
the two their call read, `%b_mean` or `%mean`.
"""

import onnx

from odtc.frontend.weights.torch_metadata import TorchMetadata, call_of


def rename_shadowed(model: onnx.ModelProto, torch: TorchMetadata) -> None:
    """Renames such results, in place, or the stored tensor where the result is an output."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    outputs = {value.name for value in model.graph.output}
    placeholders = {entry.target: name for name, entry in torch.entries.items()}
    for place, node in enumerate(model.graph.node):
        for slot, name in enumerate(node.output):
            if name not in stored or name not in placeholders:
                continue
            renames_stored = name in outputs
            new = f"{name}::{'stored' if renames_stored else node.op_type}"
            _rename(model.graph, place, name, new, placeholders[name], renames_stored)
            if renames_stored:
                stored[name].name = new
            else:
                node.output[slot] = new


def _rename(
    graph: onnx.GraphProto, maker: int, name: str, new: str, placeholder: str, renames_stored: bool
) -> None:
    """Lets those read another name that read the stored tensor, or those that read the result."""
    for place, node in enumerate(graph.node):
        call = call_of(node)
        is_stored = place <= maker or (call is not None and placeholder in call.reads)
        if is_stored == renames_stored:
            for slot, read in enumerate(node.input):
                if read == name:
                    node.input[slot] = new
