"""Reads what PyTorch's exporter writes into a file beside the graph (torch 2.6 and later).

    graph      pkg.torch.export.ExportedProgram.graph_signature
                   p_n1_weight: PARAMETER target='n1.weight'
                   b_mean: BUFFER target='mean' persistent=True
    tensor     pkg.torch.export.graph_signature.InputSpec.kind = PARAMETER
               pkg.torch.onnx.original_node_name = p_n1_weight
               pkg.onnxscript.optimizer.folded_from = ['n1.weight', 'val_3']
    node       pkg.torch.onnx.fx_node = %linear : [num_users=1] = call_function[
                   target=torch.ops.aten.linear.default](args = (%x, %p_n1_weight), kwargs = {})
               pkg.torch.onnx.name_scopes = ['', 'n1', 'linear']
               pkg.onnxscript.rewriter.rule_name = FuseBatchNormIntoConv

All of it is text that anybody may have written: it is matched by patterns and never evaluated, and
what does not match says nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_PLACEHOLDER = "pkg.torch.onnx.original_node_name"
_FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
_CALL = "pkg.torch.onnx.fx_node"
_SCOPES = "pkg.torch.onnx.name_scopes"
_RULE = "pkg.onnxscript.rewriter.rule_name"

_ENTRY = re.compile(
    r"^(?P<placeholder>\w+): (?P<kind>PARAMETER|BUFFER|CONSTANT_TENSOR) target='(?P<target>[^']+)'",
    re.MULTILINE,
)
_QUOTED = re.compile(r"'([^']*)'")
_TARGET = re.compile(r"call_function\[target=([\w.]+)\]")
_ARGUMENT = re.compile(r"%(\w+)")
# The arguments of a look-up: the table, the numbers, the padding row, and how gradients are scaled.
_LOOK_UP = re.compile(r"args = \(%\w+, %\w+, (?P<row>-?\d+)(?P<scaled>, True)?")
# Those of a normalisation of each sample: x, scale, shift, running mean and variance, and whether
# it takes the statistics of the sample.
_BY_SAMPLE = re.compile(r"args = \(%\w+(?:, (?:%\w+|None)){2}, %(?P<mean>\w+), %\w+, True")
_INSTANCE_NORM = "torch.ops.aten.instance_norm.default"
_EMBEDDING = "torch.ops.aten.embedding.default"
PARAMETER, BUFFER = "PARAMETER", "BUFFER"
# How the rules begin that fold a batch normalisation into the layer in front of it.
FOLDED_NORM = "FuseBatchNorm"
LEFT_OUT_BIAS = "RemoveOptionalBias"


@dataclass(frozen=True)
class Entry:
    """A parameter or buffer of the exported module.

    Attributes:
        kind: PARAMETER, BUFFER or CONSTANT_TENSOR.
        target: its name in the module, as in `state_dict`.
    """

    kind: str
    target: str


@dataclass(frozen=True)
class Call:
    """The call of the exported program that a node is a part of.

    Attributes:
        text: all that is written of it; equal for the nodes of one call.
        target: the function, such as `torch.ops.aten.linear.default`.
        reads: names of what it read, in order: placeholders and results of other calls.
        scopes: names of the modules that it was made in, from the outermost.
        rules: what the exporter's optimizer did to the node.
    """

    text: str
    target: str = ""
    reads: Sequence[str] = ()
    scopes: Sequence[str] = ()
    rules: str = ""


@dataclass(frozen=True)
class TorchMetadata:
    """The metadata of a file on its tensors.

    Attributes:
        entries: parameters and buffers of the module, by placeholder.
        kinds: of tensors of the file, by name.
        folded_from: by name of a tensor that the exporter computed, the names of all that went in.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    folded_from: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries or self.kinds)

    @property
    def targets(self) -> dict[str, str]:
        """Kind by name of the module's parameters and buffers."""
        return {entry.target: entry.kind for entry in self.entries.values()}

    def parameters_in(self, name: str) -> list[str]:
        """Parameters that a tensor of the file was computed from."""
        targets = self.targets
        return [n for n in self.folded_from.get(name, ()) if targets.get(n) == PARAMETER]


def read_torch_metadata(model: onnx.ModelProto) -> TorchMetadata:
    """Reads the metadata of a file on its tensors; empty where it has none."""
    graph = model.graph
    signature = _pairs(graph).get(_SIGNATURE, "")
    entries = {m["placeholder"]: Entry(m["kind"], m["target"]) for m in _ENTRY.finditer(signature)}
    kinds, folded = {}, {}
    for value in (*graph.initializer, *graph.value_info):
        pairs = _pairs(value)
        if _KIND in pairs:
            kinds[value.name] = pairs[_KIND]
        if _FOLDED_FROM in pairs:
            folded[value.name] = _QUOTED.findall(pairs[_FOLDED_FROM])
    known = {entry.target: entry.kind for entry in entries.values()}
    named = {t.name: known[t.name] for t in graph.initializer if t.name in known}
    return TorchMetadata(entries, named | kinds, folded)


def call_of(node: onnx.NodeProto) -> Call | None:
    """The call that a node is a part of; None where the node says nothing of it."""
    pairs = _pairs(node)
    if _CALL not in pairs:
        return None
    text = pairs[_CALL]
    target = _TARGET.search(text)
    _, _, arguments = text.partition("](")
    return Call(
        text,
        target[1] if target else "",
        _ARGUMENT.findall(arguments),
        [scope for scope in _QUOTED.findall(pairs.get(_SCOPES, "")) if scope],
        rules_of(node),
    )


def function_of(node: onnx.NodeProto) -> str:
    """The function of PyTorch that a node is a part of, such as `hardtanh`; empty if unknown."""
    call = call_of(node)
    parts = call.target.split(".") if call is not None else []
    return parts[3].rstrip("_") if len(parts) > 3 and parts[2] == "aten" else ""


def lost_in_look_up(call: Call) -> str:
    """The part of a look-up's gradient that ONNX has no place for; empty if there is none."""
    found = _LOOK_UP.search(call.text) if call.target == _EMBEDDING else None
    if found is None:
        return ""
    row = int(found["row"])
    said = [f"padding row {row}, which PyTorch gives no gradient"] if row >= 0 else []
    said += ["rows by how often they are read, as scale_grad_by_freq does"] * bool(found["scaled"])
    return ", and ".join(said)


def unused_statistics(call: Call) -> str:
    """The running mean that a normalisation by the sample's statistics moves; empty if none."""
    found = _BY_SAMPLE.search(call.text) if call.target == _INSTANCE_NORM else None
    return found["mean"] if found else ""


def rules_of(node: onnx.NodeProto) -> str:
    """The rewrite rules that the exporter's optimizer applied to a node."""
    return _pairs(node).get(_RULE, "")


def _pairs(
    item: onnx.GraphProto | onnx.NodeProto | onnx.TensorProto | onnx.ValueInfoProto,
) -> dict[str, str]:
    return {pair.key: pair.value for pair in item.metadata_props}
