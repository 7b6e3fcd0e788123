"""Compares the float tensors of a file with those of a state dict, by name and by value."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from odtc.core.onnx_model.weight_places import float_tensors
from odtc.frontend.file.lift import lift
from odtc.frontend.weights.classify import classify
from odtc.frontend.weights.editing import restored
from odtc.frontend.weights.evidence.alike import Held, coarser, gap, is_rounded, is_same
from odtc.frontend.weights.evidence.layouts import is_exp
from odtc.frontend.weights.exporters.torch_metadata import (
    FOLDED_NORM,
    TorchMetadata,
    call_of,
    read_torch_metadata,
)
from odtc.frontend.weights.exporters.torn import torn_names, torn_tensors
from odtc.frontend.weights.fates import Entry, Fate, Match
from odtc.frontend.weights.finding import Kind


def match(model: onnx.ModelProto, state: Mapping[str, Entry]) -> list[Match]:
    """Matches each float tensor of a state dict, and lists parameters that only the file has.

    Args:
        model: as `load_model` reads it.
        state: the float tensors of the state dict.

    Raises:
        ModelError: what the file says of itself is damaged.
    """
    floats = {name: numpy_helper.to_array(t) for name, t in float_tensors(model.graph)}
    torch, held = read_torch_metadata(model), Held(floats)
    folded = _folded(model, torch)
    logarithms = {name for name, (_, source) in restored(model.graph).items() if is_exp(source)}
    found = {
        name: _fate(name, entry, held, state, folded, of_logarithm=name in logarithms)
        for name, entry in state.items()
    }
    found |= dict(_sharing(found, state, held))
    found |= torn_names(found, state)
    matched = {each.tensor for each in found.values()}
    lifted = lift(model.graph)
    findings = classify(
        *(model, lifted.nodes, floats),
        integers=lifted.tensors.keys() - floats.keys(),
        written=lifted.written,
    )
    trained = [name for name, finding in findings.items() if finding.kind is Kind.PARAMETER]
    beside = {name: torch.parameters_in(name) for name in findings if name not in matched}
    twice = torn_tensors(beside, trained, found, state, held)
    found |= twice.found
    extra = [
        Match(name, Fate.EXTRA, name, "")
        for name in trained
        if name not in matched and name not in twice.tensors and not beside[name]
    ]
    return [*found.values(), *extra]


def counts(matches: Iterable[Match]) -> dict[str, int]:
    """How many tensors met each fate, of those that any met."""
    found = Counter(each.fate for each in matches)
    return {fate.value: found[fate] for fate in Fate if found[fate]}


def _fate(
    name: str,
    entry: Entry,
    held: Held,
    state: Mapping[str, Entry],
    folded: Mapping[str, str],
    *,
    of_logarithm: bool,
) -> Match:
    if name in held.values:
        tensor = held.values[name]
        return _of_name(name, entry.value, tensor, folded, of_logarithm=of_logarithm)
    alike = held.like(entry.value)
    for other, how in alike:
        if other not in state:
            return Match(name, Fate.RENAMED, other, how)
    for other, how in alike:
        shares = entry.storage is not None and entry.storage == state[other].storage
        if shares:
            return Match(name, Fate.TIED, other, how)
    if name in folded:
        return Match(name, Fate.FOLDED, "", folded[name])
    if alike:
        other, how = alike[0]
        detail = "the file has one tensor for both; tied, if they are one in the module"
        return Match(name, Fate.MERGED, other, ", ".join(filter(None, (how, detail))))
    return Match(name, Fate.MISSING)


def _of_name(
    name: str,
    value: np.ndarray,
    tensor: np.ndarray,
    folded: Mapping[str, str],
    *,
    of_logarithm: bool,
) -> Match:
    shapes = f"{list(value.shape)} in the state dict, {list(tensor.shape)} in the file"
    if value.size != tensor.size:
        return Match(name, Fate.DIFFERENT, name, shapes)
    if not is_same(value, tensor):
        if name in folded:
            return Match(name, Fate.FOLDED, name, folded[name])
        rounded = is_rounded(value, tensor, of_logarithm=of_logarithm)
        fate = Fate.ROUNDED if rounded and value.shape == tensor.shape else Fate.DIFFERENT
        return Match(name, fate, name, f"by {gap(value, tensor):.3g} at most")
    if value.shape != tensor.shape:
        return Match(name, Fate.RESHAPED, name, shapes)
    if value.dtype != tensor.dtype:
        types = f"{value.dtype.name} in the state dict, {tensor.dtype.name} in the file"
        dtype = coarser(value.dtype, tensor.dtype)
        is_exact = np.array_equal(value.astype(np.float64), tensor.astype(np.float64))
        rounded = "" if is_exact else f", equal when rounded to {dtype.name}"
        return Match(name, Fate.OTHER_TYPE, name, types + rounded)
    return Match(name, Fate.EQUAL, name)


def _folded(model: onnx.ModelProto, torch: TorchMetadata) -> dict[str, str]:
    """The tensors that went into other tensors, and how, as far as the file says so."""
    stored = {tensor.name for tensor in model.graph.initializer}
    found = {
        part: f"computed into {name}"
        for name in torch.folded_from.keys() & stored
        for part in torch.parameters_in(name)
    }
    for node in model.graph.node:
        call = call_of(node)
        if call is None or FOLDED_NORM not in call.rules:
            continue
        read = {torch.entries[each].target for each in call.reads if each in torch.entries}
        into = f"a batch normalisation was folded into {', '.join(node.input[1:])}"
        found |= dict.fromkeys(read | set(node.input[1:]), into)
    return found


def _sharing(
    found: Mapping[str, Match], state: Mapping[str, Entry], held: Held
) -> Iterator[tuple[str, Match]]:
    """Entries that have a renamed tensor in common: tied, or merged where the file has no other."""
    first: dict[str, str] = {}
    for name, each in found.items():
        if each.fate is not Fate.RENAMED:
            continue
        owner = first.setdefault(each.tensor, name)
        if owner == name:
            continue
        storage = state[name].storage
        if storage is not None and storage == state[owner].storage:
            yield name, Match(name, Fate.TIED, each.tensor, each.detail)
            continue
        alike = held.like(state[name].value)
        free = [(t, how) for t, how in alike if t not in state and t not in first]
        if free:
            tensor, how = free[0]
            first[tensor] = name
            yield name, Match(name, Fate.RENAMED, tensor, how)
        else:
            detail = ", ".join(filter(None, (each.detail, f"one tensor with {owner}")))
            yield name, Match(name, Fate.MERGED, each.tensor, detail)
