"""Separates what PyTorch's exporter by `torch.export` merged, folded and left out.

Its optimizer stores equal tensors once, transposes and reshapes weights once and for all, and
leaves biases of zeros out. Every node says which call of the program it is a part of, and that
which parameters it read, so that it can be undone:

    LayerNormalization (x, n1.weight, n1.bias)   of   layer_norm(%x, %p_n2_weight, %p_n2_bias)

A parameter that modules share has one name in the program; it stays one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from odtc.frontend.weights.editing import APART, NUMBER, TURNED, Editing
from odtc.frontend.weights.evidence.layouts import keeps_elements
from odtc.frontend.weights.exporters.torch_metadata import (
    FOLDED_NORM,
    LEFT_OUT_BIAS,
    PARAMETER,
    Call,
    TorchMetadata,
    call_of,
)
from odtc.frontend.weights.exporters.views import add_bias, give_view

_MEASURES = ("Shape", "Size")
_NORMS = (["BatchNormalization"], ["InstanceNormalization"], ["LayerNormalization"])


@dataclass(frozen=True)
class Read:
    """A node that reads a stored float tensor.

    Attributes:
        place: of the node in the graph.
        slot: which of its inputs.
        name: of the tensor.
        sources: the parameters and buffers that the tensor is, or was computed from.
        through: names of all else that went into it.
    """

    place: int
    slot: int
    name: str
    sources: tuple[str, ...]
    through: tuple[str, ...]


@dataclass
class Group:
    """The nodes of one call.

    Attributes:
        call: what it read.
        places: of its nodes in the graph.
        reads: what they read of the module.
    """

    call: Call
    places: list[int] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)


def separate_exported(model: onnx.ModelProto, torch: TorchMetadata) -> None:
    """Gives each parameter the name and shape that it has in the module, in place."""
    editing, targets = Editing(model.graph), torch.targets
    known = {name for node in model.graph.node for name in node.output}
    known |= {value.name for value in model.graph.input} | torch.entries.keys()
    replaced: set[str] = set()
    for group in _groups(editing, torch, targets):
        wanted = [torch.entries[name].target for name in group.call.reads if name in torch.entries]
        if _are_in_order(group, editing, wanted):
            for read, target in zip(group.reads, wanted, strict=True):
                _give(read, target, group.call, editing, targets)
        else:
            unknown = [name for name in group.call.reads if name not in known]
            replaced |= _undo(group, editing, wanted, targets, unknown)
    editing.insert_nodes()
    editing.drop_unread(replaced)


def _groups(editing: Editing, torch: TorchMetadata, targets: Mapping[str, str]) -> Iterable[Group]:
    """The calls, but for those that a batch normalisation was folded into."""
    groups: dict[str, Group] = {}
    for place, node in enumerate(editing.graph.node):
        call = call_of(node)
        if call is None or FOLDED_NORM in call.rules:
            continue
        group = groups.setdefault(call.text, Group(call))
        group.places.append(place)
        if node.op_type in _MEASURES:
            continue
        for slot, name in enumerate(node.input):
            if name in editing.tensors and (sources := _sources(name, torch, targets)):
                went_in = torch.folded_from.get(name, ())
                through = tuple(each for each in went_in if each != sources[0])
                group.reads.append(Read(place, slot, name, sources, through))
    return groups.values()


def _sources(name: str, torch: TorchMetadata, targets: Mapping[str, str]) -> tuple[str, ...]:
    if name in targets:
        return (name,)
    return tuple(each for each in torch.folded_from.get(name, ()) if each in targets)


def _are_in_order(group: Group, editing: Editing, wanted: Sequence[str]) -> bool:
    """Whether a call is one normalisation, whose parameters and buffers stand in ONNX's order.

    A fresh one may read a tensor twice: of zeros, as shift and as mean.
    """
    types = [editing.graph.node[place].op_type for place in group.places]
    return types in _NORMS and len(group.reads) == len(wanted) == len(set(wanted))


def _undo(
    group: Group,
    editing: Editing,
    wanted: Sequence[str],
    targets: Mapping[str, str],
    unknown: Sequence[str],
) -> set[str]:
    """Lets the nodes of a call read what it read; returns the folded tensors that gave way.

    Args:
        group: the nodes.
        editing: of their graph.
        wanted: names of the parameters and buffers that the call read.
        targets: kinds of all of them.
        unknown: what the call read that the graph does not have. A tensor may be what is missing:
            a parameter through a cast, say, that the exporter dropped.
    """
    call = group.call
    right, wrong = list[Read](), list[Read]()
    for read in group.reads:
        (right if _is_right(read, call, wanted, targets) else wrong).append(read)
    used = {name for read in right for name in read.sources}
    left = [name for name in dict.fromkeys(wanted) if name not in used]
    replaced: set[str | None] = set()
    for read, target in _paired(wrong, left, call, targets, unknown):
        replaced.add(_give(read, target, call, editing, targets))
        left = [name for name in left if name != target]
        wrong = [each for each in wrong if each is not read]
    for read in wrong:
        if not unknown and not wanted and targets.get(read.name) == PARAMETER:
            _make_number(read, editing)
    for read in right:
        is_folded = read.name not in targets and len(read.sources) == 1
        if is_folded and targets[read.sources[0]] == PARAMETER:
            how = f"{TURNED}: {read.name}"
            replaced.add(_view(read, read.sources[0], call, editing, how))
    if len(left) == 1:
        _give_bias(group, left[0], editing)
    return {name for name in replaced if name}


def _is_right(read: Read, call: Call, wanted: Sequence[str], targets: Mapping[str, str]) -> bool:
    """Whether the call read this tensor: a parameter of its own, or a value of this name."""
    is_value = read.name not in targets and read.name in call.reads
    return is_value or not set(wanted).isdisjoint(read.sources)


def _paired(
    wrong: Sequence[Read],
    left: Sequence[str],
    call: Call,
    targets: Mapping[str, str],
    unknown: Sequence[str],
) -> list[tuple[Read, str]]:
    """Which parameter each read should be of: by its last name, by order, or by the module.

    By the module only where nothing was computed from it on the way to the call.
    """
    by_name = [(read, _alike(read.sources[0], left)) for read in wrong]
    if all(target for _, target in by_name) and len({t for _, t in by_name}) == len(
        {read.name for read in wrong}
    ):
        return by_name
    if not unknown and len(wrong) == len(left):
        return list(zip(wrong, left, strict=True))
    if not keeps_elements(unknown):
        return []
    by_module = [(read, _in_module(read.sources[0], call, targets)) for read in wrong]
    return [(read, target) for read, target in by_module if target]


def _alike(source: str, names: Sequence[str]) -> str:
    """The only one of the names that ends as another."""
    last = source.rpartition(".")[2]
    found = [name for name in names if name.rpartition(".")[2] == last]
    return found[0] if len(found) == 1 else ""


def _in_module(source: str, call: Call, targets: Mapping[str, str]) -> str:
    """The parameter of the same last name of the innermost module that has one."""
    last = source.rpartition(".")[2]
    names = (f"{scope}.{last}" for scope in reversed(call.scopes))
    return next((name for name in names if targets.get(name) == PARAMETER), "")


def _give(
    read: Read, target: str, call: Call, editing: Editing, targets: Mapping[str, str]
) -> str | None:
    """Lets a node read the parameter that it should, with the elements of the merged one."""
    how = f"{APART}: {read.name}"
    if read.name == target:
        return None
    if read.name not in targets:
        return _view(read, target, call, editing, how)
    if target not in editing.tensors:
        editing.copy(read.name, target, how)
    elif not np.array_equal(editing.value(target), editing.value(read.name)):
        return None
    editing.graph.node[read.place].input[read.slot] = target
    return None


def _view(read: Read, target: str, call: Call, editing: Editing, how: str) -> str | None:
    return give_view(editing, read.place, read.slot, target, read.through, call, how)


def _make_number(read: Read, editing: Editing) -> None:
    """Gives a number of the program that was merged with a parameter a tensor of its own."""
    name = f"{read.name}::{NUMBER}"
    if name not in editing.tensors:
        editing.copy(read.name, name, f"{NUMBER}: {read.name}")
    editing.graph.node[read.place].input[read.slot] = name


def _give_bias(group: Group, target: str, editing: Editing) -> None:
    for place in group.places:
        node = editing.graph.node[place]
        call = call_of(node)
        if len(node.input) == 2 and call is not None and LEFT_OUT_BIAS in call.rules:
            add_bias(editing, place, target)
            return
