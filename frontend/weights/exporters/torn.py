"""Finds what is one tensor in the module and several in the file, which part in training."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odtc.frontend.weights.evidence.alike import Held
from odtc.frontend.weights.evidence.values import is_filled, pattern
from odtc.frontend.weights.fates import Entry, Fate, Match

_ENTIRE = frozenset({Fate.EQUAL, Fate.ROUNDED, Fate.RENAMED, Fate.RESHAPED, Fate.OTHER_TYPE})


@dataclass(frozen=True)
class Twice:
    """Tensors of the file that are some of the module once more.

    Attributes:
        found: what became of those of the module, by name.
        tensors: their names in the file.
    """

    found: Mapping[str, Match]
    tensors: Collection[str]


def torn_names(found: Mapping[str, Match], state: Mapping[str, Entry]) -> dict[str, Match]:
    """Entries of a state dict that share memory, and are several tensors in the file."""
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


def torn_tensors(
    beside: Mapping[str, Sequence[str]],
    trained: Collection[str],
    found: Mapping[str, Match],
    state: Mapping[str, Entry],
    held: Held,
) -> Twice:
    """Entries that the file has under their name, and once more as a tensor of another one.

    Such as a matrix that is used as it is and transposed: an exporter that computes what it can
    stores both.

    Args:
        beside: float tensors of the file that are no entry's, each with the parameters that the
            file says it was computed from.
        trained: names of those that are parameters.
        found: what became of each entry so far.
        state: the entries.
        held: the tensors of the file.
    """
    whole = {name: each for name, each in found.items() if each.fate in _ENTIRE}
    twins = _twins(whole, state, held)
    again: dict[str, Match] = {}
    tensors: set[str] = set()
    for tensor, parts in beside.items():
        told = bool(pattern(held.values[tensor])) or is_filled(held.values[tensor])
        twin = twins.get(tensor) if tensor in trained and not told else None
        names = parts or ([twin[0]] if twin else [])
        for name in names:
            if name in whole:
                how = twin[1] if twin and twin[0] == name else None
                again[name] = _again(whole[name], tensor, how)
                tensors.add(tensor)
    return Twice(again, tensors)


def _twins(
    whole: Mapping[str, Match], state: Mapping[str, Entry], held: Held
) -> dict[str, tuple[str, str]]:
    """By tensor of the file, the entry with its elements, and how it lies."""
    return {tensor: (name, how) for name in whole for tensor, how in held.like(state[name].value)}


def _again(match: Match, tensor: str, how: str | None) -> Match:
    if how is None:
        detail = f"computed into {tensor}, too, which does not follow it"
        return Match(match.name, Fate.FOLDED, match.tensor, detail)
    lies = f", {how}" if how else ""
    detail = f"torn tie: one tensor of the module, two of the file: {match.tensor} and {tensor}"
    return Match(match.name, Fate.TORN, match.tensor, detail + lies)
