"""Says what an exporter did to parameters: what was undone, and what cannot be."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import onnx

from odtc.frontend.weights.editing import APART, LEFT_OUT, NUMBER, TURNED, restored
from odtc.frontend.weights.evidence.names import is_entry, names_modules
from odtc.frontend.weights.evidence.uses import Read, Uses, flattened
from odtc.frontend.weights.exporters.torch_metadata import (
    FOLDED_NORM,
    PARAMETER,
    Call,
    TorchMetadata,
    call_of,
    lost_in_look_up,
    read_torch_metadata,
    unused_statistics,
)
from odtc.frontend.weights.finding import Finding, Kind
from odtc.frontend.weights.notes import listed

# A loss, and the weights that it is of: nobody misses it where a step trains none of them. It is of
# all steps where there are none.
Loss = tuple[str, tuple[str, ...]]

_EXPORT = "export with optimize=False, or by odtc.from_torch, to train them"
_SCRIPT_EXPORT = (
    "export with training=TrainingMode.TRAINING and do_constant_folding=False, or by "
    "odtc.from_torch"
)


def losses_of(model: onnx.ModelProto, findings: Mapping[str, Finding]) -> Iterator[Loss]:
    """The losses of a model that `restore` has been through.

    Args:
        model: as it was read.
        findings: what its tensors are.
    """
    torch = read_torch_metadata(model)
    if torch.entries:
        yield from _of_exported(model, torch, findings)
    elif names_modules(model):
        yield from _of_scripted(model, findings)
    else:
        yield from _merged(model, findings)
        yield from _frozen_norms(model, findings)


_UNDONE: Mapping[str, Callable[[str], str]] = {
    APART: lambda pairs: (
        f"parameters that the file shares with others of equal values are apart again: {pairs}"
    ),
    TURNED: lambda pairs: (
        f"parameters that the exporter laid out anew have their own names and shapes again: {pairs}"
    ),
    LEFT_OUT: lambda pairs: f"biases of zeros that the exporter left out are there again: {pairs}",
    NUMBER: lambda pairs: (
        f"numbers that the file shares with parameters are apart, and constants: {pairs}"
    ),
}
_PAIRED = {APART: "{name} (from {source})", TURNED: "{name} (was {source})"}


def undone(model: onnx.ModelProto) -> Iterator[str]:
    """The changes that `restore` undid in a model."""
    kinds: dict[str, list[str]] = {}
    for name, (how, source) in restored(model.graph).items():
        form = _PAIRED.get(how, "{name}")
        kinds.setdefault(how, []).append(form.format(name=name, source=source))
    for how, names in kinds.items():
        if how in _UNDONE:
            yield _UNDONE[how](listed(names))


def _of_exported(
    model: onnx.ModelProto, torch: TorchMetadata, findings: Mapping[str, Finding]
) -> Iterator[Loss]:
    calls = [call for node in model.graph.node if (call := call_of(node)) is not None]
    missing = [
        name for name, kind in torch.targets.items() if kind == PARAMETER and name not in findings
    ]
    norms = {call.text: call for call in calls if FOLDED_NORM in call.rules}
    if norms:
        modules = [call.scopes[-2] if len(call.scopes) > 1 else "?" for call in norms.values()]
        said = (
            "the exporter folded batch normalisations into the layers in front of them, which are "
            f"trained without them ({len(norms)}: {', '.join(modules)}); {_EXPORT}"
        )
        yield said, ()
    folded = _read_by(norms.values(), torch)
    yield from _computed(torch, findings)
    yield from _looked_up(calls, torch)
    yield from _normalised(calls, torch)
    parts = {part for name in findings for part in torch.parameters_in(name)}
    ties = dict(_ties(missing, calls, torch, findings))
    for name, other in ties.items():
        yield f"{other} is {name}, too: one parameter of both modules", ()
    lost = [name for name in missing if name not in folded | parts | ties.keys()]
    if lost:
        said = (
            f"the file has no tensor for {', '.join(lost)}: not trained; the module does not use "
            "them, or the exporter dropped them with what they did not change"
        )
        yield said, ()


def _read_by(calls: Iterable[Call], torch: TorchMetadata) -> set[str]:
    read = {name for call in calls for name in call.reads}
    return {entry.target for name, entry in torch.entries.items() if name in read}


def _computed(torch: TorchMetadata, findings: Mapping[str, Finding]) -> Iterator[Loss]:
    made = {
        name: parts
        for name, found in findings.items()
        if found.kind is Kind.PARAMETER and (parts := torch.parameters_in(name))
    }
    if made:
        pairs = [f"{name} (of {', '.join(parts)})" for name, parts in made.items()]
        said = (
            "the exporter computed tensors from parameters, which are trained in their place: "
            f"{', '.join(pairs)}; {_EXPORT}"
        )
        yield said, tuple(made)


def _looked_up(calls: Iterable[Call], torch: TorchMetadata) -> Iterator[Loss]:
    """Tables whose gradients are others in PyTorch; nothing in the graph itself shows it."""
    lost = {
        torch.entries[call.reads[0]].target: what
        for call in calls
        if call.reads and call.reads[0] in torch.entries and (what := lost_in_look_up(call))
    }
    for name, what in lost.items():
        said = (
            f"{name}: the module treats its {what}; a step of this file does not; export by "
            f"odtc.from_torch, or --freeze {name} freezes the table"
        )
        yield said, (name,)


def _normalised(calls: Iterable[Call], torch: TorchMetadata) -> Iterator[Loss]:
    """Running statistics that the module moves as it trains, and the file does not have."""
    means = dict.fromkeys(filter(None, map(unused_statistics, calls)))
    names = [
        torch.entries[mean].target.rpartition(".")[0] for mean in means if mean in torch.entries
    ]
    if names:
        said = (
            f"the file has no running statistics of {', '.join(name or '?' for name in names)} "
            "(instance normalisation with track_running_stats=True): evaluations normalise each "
            "sample by its own, the module in eval() by the running ones, which do not follow; "
            "export a module with track_running_stats=False"
        )
        yield said, ()


def _ties(
    missing: Sequence[str],
    calls: Sequence[Call],
    torch: TorchMetadata,
    findings: Mapping[str, Finding],
) -> Iterator[tuple[str, str]]:
    """Parameters that a module reads under the name of another module's."""
    for name in missing:
        module, _, last = name.rpartition(".")
        for call in calls:
            others = [torch.entries[each].target for each in call.reads if each in torch.entries]
            found = [each for each in others if each.rpartition(".")[2] == last]
            if module in call.scopes[-2:] and len(found) == 1 and found[0] in findings:
                yield name, found[0]
                break


def _of_scripted(model: onnx.ModelProto, findings: Mapping[str, Finding]) -> Iterator[Loss]:
    modules = {
        name: sorted({_module(node) for node in nodes}) for name, nodes in _made_up(model, findings)
    }
    folded = {name: nodes for name, nodes in _made_up(model, findings) if _is_folded(nodes)}
    convolutions = list(dict.fromkeys(each for name in folded for each in modules[name]))
    if convolutions:
        said = (
            "the exporter computed weights of convolutions, mostly to fold batch normalisations "
            f"into them, which are not trained ({len(convolutions)}: {', '.join(convolutions)}); "
            f"{_SCRIPT_EXPORT}"
        )
        yield said, ()
    others = {name: found for name, found in modules.items() if name not in folded}
    if others:
        pairs = [f"{name} ({', '.join(found)})" for name, found in others.items()]
        said = (
            "parameters that the exporter transposed or regrouped are trained under the names of "
            f"the file: {', '.join(pairs)}"
        )
        yield said, tuple(others)
    shared = [name for name, found in others.items() if len(found) > 1]
    if shared:
        said = (
            f"several modules read {', '.join(shared)}: trained as one parameter; if they are "
            f"several, {_SCRIPT_EXPORT}"
        )
        yield said, tuple(shared)


def _merged(model: onnx.ModelProto, findings: Mapping[str, Finding]) -> Iterator[Loss]:
    """Parameters of equal values that PyTorch's exporter made one of: it copies them by Identity.

    Layers that read one tensor without a copy, as the steps of a recurrence do, mean it.
    """
    copied = {node.input[0] for node in flattened(model.graph.node) if node.op_type == "Identity"}
    for name, nodes in _made_up(model, findings):
        if name in copied and len(nodes) > 1:
            said = (
                f"{', '.join(node.op_type for node in nodes)} read {name}: trained as one "
                "parameter; if they are several, which had equal values, as of a model that was "
                "never trained, export it after a step of training"
            )
            yield said, (name,)


def _frozen_norms(model: onnx.ModelProto, findings: Mapping[str, Finding]) -> Iterator[Loss]:
    """Batch normalisations in inference, as Keras exports them: x minus a mean, times a scale."""
    uses = Uses(tuple(flattened(model.graph.node)), {})
    stored = {name for name, found in findings.items() if found.kind is Kind.PARAMETER}
    stored |= {
        node.output[0]
        for node in uses.nodes
        if node.op_type == "Identity" and node.input[0] in stored
    }
    found = [
        node.name or node.output[0]
        for node in uses.nodes
        if node.op_type == "Sub" and node.input[1] in stored
        for read in uses.readers.get(node.output[0], ())
        if read.node.op_type == "Mul" and stored.intersection(read.others)
    ]
    if found:
        said = (
            f"what looks like batch normalisations of a model in inference ({len(found)}: "
            f"{listed(found)}) subtracts and multiplies by stored numbers: these are trained, and "
            "no statistics of a batch are taken"
        )
        yield said, ()


def _made_up(
    model: onnx.ModelProto, findings: Mapping[str, Finding]
) -> Iterator[tuple[str, list[onnx.NodeProto]]]:
    """Parameters with a name that the exporter made up, and the nodes that read them."""
    uses = Uses(tuple(flattened(model.graph.node)), {})
    for name, found in findings.items():
        if found.kind is Kind.PARAMETER and not is_entry(name, model.producer_name):
            copies = [each.node.output[0] for each in uses.readers.get(name, ()) if _copies(each)]
            reads = [each for of in (name, *copies) for each in uses.readers.get(of, ())]
            yield name, [each.node for each in reads if not _copies(each)]


def _copies(read: Read) -> bool:
    return read.node.op_type == "Identity"


def _is_folded(nodes: Sequence[onnx.NodeProto]) -> bool:
    return any("Conv" in node.op_type for node in nodes)


def _module(node: onnx.NodeProto) -> str:
    """The module of a node: `layers.0.linear1` of `/layers/layers.0/linear1/MatMul`."""
    parts: list[str] = []
    for part in node.name.strip("/").split("/")[:-1]:
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part)
    return ".".join(parts) or node.name or node.op_type
