"""Compares the float tensors of a file with those of a state dict, by name and by value."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import onnx
from onnx import numpy_helper

from odtc.core.weight_places import float_tensors
from odtc.frontend.lift import lift
from odtc.frontend.weights.classify import classify
from odtc.frontend.weights.finding import Kind
from odtc.frontend.weights.torch_metadata import (
    FOLDED_NORM,
    TorchMetadata,
    call_of,
    read_torch_metadata,
)


class Fate(StrEnum):
    """What became of a tensor of a state dict in the file."""

    EQUAL = "equal"
    TIED = "tied"
    RENAMED = "renamed"
    RESHAPED = "reshaped"
    OTHER_TYPE = "other type"
    MERGED = "merged"
    TORN = "torn apart"
    FOLDED = "folded"
    DIFFERENT = "different"
    MISSING = "missing"
    EXTRA = "extra"


# What the file trains otherwise than the module would, or does not have.
LOST = frozenset({Fate.MERGED, Fate.TORN, Fate.FOLDED, Fate.DIFFERENT, Fate.MISSING})


@dataclass(frozen=True)
class Match:
    """What became of one tensor.

    Attributes:
        name: of the tensor in the state dict; of an extra one, in the file.
        fate: what became of it.
        tensor: the tensor of the file that it is, where there is one.
        detail: more about it, as text.
    """

    name: str
    fate: Fate
    tensor: str = ""
    detail: str = ""

    def __str__(self) -> str:
        became = f" -> {self.tensor}" if self.tensor and self.tensor != self.name else ""
        return f"{self.name}{became}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True)
class Entry:
    """A float tensor of a state dict.

    Attributes:
        value: its elements.
        storage: where they lie in memory, where the reader knows: those of tied tensors are equal.
    """

    value: np.ndarray
    storage: object = None


@dataclass(frozen=True)
class _Held:
    """The float tensors of a file, by name and by what they hold."""

    values: Mapping[str, np.ndarray]
    by_digest: Mapping[tuple[str, bytes], Sequence[str]]

    @classmethod
    def of(cls, values: Mapping[str, np.ndarray]) -> "_Held":
        """Of these tensors."""
        found: dict[tuple[str, bytes], list[str]] = {}
        for name, value in values.items():
            found.setdefault((value.dtype.name, _digest(value)), []).append(name)
        return cls(values, found)

    def like(self, value: np.ndarray) -> list[tuple[str, str]]:
        """Tensors with these elements, in any of the file's types, and how they lie."""
        turned = [(value.T, "transposed")] if value.ndim == 2 and min(value.shape) > 1 else []
        found: dict[str, str] = {}
        for dtype in {each.dtype for each in self.values.values()}:
            for form, how in [(value, ""), *turned]:
                for name in self.by_digest.get((dtype.name, _digest(form.astype(dtype))), ()):
                    found.setdefault(name, how)
        return list(found.items())


def match(model: onnx.ModelProto, state: Mapping[str, Entry]) -> list[Match]:
    """What became of each float tensor of a state dict, and which parameters the file has beside.

    Args:
        model: as `load_model` reads it.
        state: the float tensors of the state dict.

    Raises:
        ModelError: what the file says of itself is damaged.
    """
    floats = {name: numpy_helper.to_array(t) for name, t in float_tensors(model.graph)}
    torch, held = read_torch_metadata(model), _Held.of(floats)
    folded = _folded(model, torch)
    found = {name: _fate(name, entry, held, state, folded) for name, entry in state.items()}
    found |= dict(_sharing(found, state))
    found |= _torn(found, state)
    matched = {each.tensor for each in found.values()} | {
        name for name in torch.folded_from if torch.parameters_in(name)
    }
    lifted = lift(model.graph)
    findings = classify(model, lifted.nodes, floats, written=lifted.written)
    extra = [
        Match(name, Fate.EXTRA, name, "")
        for name, finding in findings.items()
        if finding.kind is Kind.PARAMETER and name not in matched
    ]
    return [*found.values(), *extra]


def counts(matches: Iterable[Match]) -> dict[str, int]:
    """How many tensors met each fate, of those that any met."""
    found = Counter(each.fate for each in matches)
    return {fate.value: found[fate] for fate in Fate if found[fate]}


def _fate(
    name: str, entry: Entry, held: _Held, state: Mapping[str, Entry], folded: Mapping[str, str]
) -> Match:
    if name in held.values:
        return _of_name(name, entry.value, held.values[name], folded)
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


def _of_name(name: str, value: np.ndarray, tensor: np.ndarray, folded: Mapping[str, str]) -> Match:
    shapes = f"{list(value.shape)} in the state dict, {list(tensor.shape)} in the file"
    if value.size != tensor.size:
        return Match(name, Fate.DIFFERENT, name, shapes)
    same = np.array_equal(value.astype(tensor.dtype).ravel(), tensor.ravel())
    if not same:
        if name in folded:
            return Match(name, Fate.FOLDED, name, folded[name])
        gap = np.abs(value.astype(np.float64).ravel() - tensor.astype(np.float64).ravel()).max()
        return Match(name, Fate.DIFFERENT, name, f"by {gap:.3g} at most")
    if value.shape != tensor.shape:
        return Match(name, Fate.RESHAPED, name, shapes)
    if value.dtype != tensor.dtype:
        types = f"{value.dtype.name} in the state dict, {tensor.dtype.name} in the file"
        return Match(name, Fate.OTHER_TYPE, name, types)
    return Match(name, Fate.EQUAL, name)


def _folded(model: onnx.ModelProto, torch: TorchMetadata) -> dict[str, str]:
    """What went into other tensors, and how, as far as the file says so."""
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


def _sharing(found: Mapping[str, Match], state: Mapping[str, Entry]) -> Iterator[tuple[str, Match]]:
    """Entries that have a renamed tensor in common: they are tied, or were merged."""
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
        else:
            detail = ", ".join(filter(None, (each.detail, f"one tensor with {owner}")))
            yield name, Match(name, Fate.MERGED, each.tensor, detail)


def _torn(found: Mapping[str, Match], state: Mapping[str, Entry]) -> dict[str, Match]:
    """Entries that are one tensor in the module and several in the file."""
    groups: dict[object, list[str]] = {}
    for name, entry in state.items():
        if entry.storage is not None and found[name].tensor:
            groups.setdefault(entry.storage, []).append(name)
    return dict(_apart(groups.values(), found))


def _apart(
    groups: Iterable[Sequence[str]], found: Mapping[str, Match]
) -> Iterator[tuple[str, Match]]:
    for names in groups:
        first = found[names[0]].tensor
        for name in names[1:]:
            if found[name].tensor != first:
                detail = f"one tensor with {names[0]} in the module"
                yield name, Match(name, Fate.TORN, found[name].tensor, detail)


def _digest(value: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).digest()
