"""Tells stored tensors from results of the same name, which PyTorch's exporter may write.

Without its optimizer, a buffer `mean` and the result of `x.mean()` share a name. Nodes say which of
the two their call read, `%b_mean` or `%mean`. Where they do not, the file is left as it is, and
refused: it has two tensors of one name.
"""

from collections.abc import Iterator

import onnx

from odtc.frontend.weights.exporters.torch_metadata import TorchMetadata, call_of


def rename_shadowed(model: onnx.ModelProto, torch: TorchMetadata) -> None:
    """Renames such results, in place, or the stored tensor where the result is an output."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    outputs = {value.name for value in model.graph.output}
    placeholders = {entry.target: name for name, entry in torch.entries.items()}
    for place, node in enumerate(model.graph.node):
        for slot, name in enumerate(node.output):
            if name not in stored or name not in placeholders:
                continue
            reads = list(_reads(model.graph, place, name, placeholders[name]))
            if None in {is_stored for _, _, is_stored in reads}:
                continue
            renames_stored = name in outputs
            new = f"{name}::{'stored' if renames_stored else node.op_type}"
            for reader, read, is_stored in reads:
                if is_stored == renames_stored:
                    reader.input[read] = new
            if renames_stored:
                stored[name].name = new
            else:
                node.output[slot] = new


def _reads(
    graph: onnx.GraphProto, maker: int, name: str, placeholder: str
) -> Iterator[tuple[onnx.NodeProto, int, bool | None]]:
    """Nodes and slots that read the name, and whether that is the stored tensor, if it is known."""
    for place, node in enumerate(graph.node):
        slots = [slot for slot, read in enumerate(node.input) if read == name]
        if not slots:
            continue
        call = call_of(node)
        read = call.reads if call else ()
        told: list[bool | None] = [
            each == placeholder for each in read if each in (name, placeholder)
        ]
        if place <= maker:
            told = [True] * len(slots)
        elif len(set(told)) == 1:
            told = told[:1] * len(slots)
        known = told if len(told) == len(slots) else [None] * len(slots)
        yield from ((node, slot, each) for slot, each in zip(slots, known, strict=True))
