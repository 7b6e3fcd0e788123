"""Decides for every float tensor of a file: parameter, buffer or constant; see the package."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import onnx

from odtc.frontend.weights.evidence.names import is_entry, names_modules
from odtc.frontend.weights.evidence.rule import Stored, judge
from odtc.frontend.weights.evidence.uses import Uses, flattened
from odtc.frontend.weights.evidence.values import is_countable, pattern
from odtc.frontend.weights.exporters.own_metadata import not_listed, read_own_metadata
from odtc.frontend.weights.exporters.torch_metadata import (
    BUFFER,
    FOLDED_NORM,
    PARAMETER,
    TorchMetadata,
    read_torch_metadata,
    rules_of,
)
from odtc.frontend.weights.finding import Finding, Kind, Known, said

_AS_TOLD = Finding(Kind.PARAMETER, "named by the user", Known.USER)


def classify(
    model: onnx.ModelProto,
    nodes: Iterable[onnx.NodeProto],
    values: Mapping[str, np.ndarray],
    *,
    integers: Collection[str],
    written: Collection[str] = (),
    promoted: Collection[str] = (),
) -> dict[str, Finding]:
    """Classifies each float tensor of a model.

    Args:
        model: for what it says of itself.
        nodes: of its graph, with their bodies.
        values: the float tensors, by the names that nodes read them by.
        integers: names of the tensors that are no floats.
        written: names of those that are Constant nodes in the file.
        promoted: names of those that the user wants trained, whatever they are.

    Raises:
        ModelError: what the file says is damaged.
    """
    uses = Uses(tuple(flattened(nodes)), values)
    own, torch = read_own_metadata(model, values, integers), read_torch_metadata(model)
    producer, by_module = model.producer_name, names_modules(model)

    def found(name: str) -> Finding:
        if own is not None:
            return own.get(name) or not_listed()
        if torch:
            return _said_by_torch(name, torch, uses)
        is_named = name not in written and is_entry(name, producer)
        is_made_up = by_module and not is_named
        stored = Stored(name, values[name], is_named, is_made_up, is_written=name in written)
        return judge(stored, uses)

    return {name: _AS_TOLD if name in promoted else found(name) for name in values}


def _said_by_torch(name: str, torch: TorchMetadata, uses: Uses) -> Finding:
    """The exporter lists all parameters and buffers, and what constants were computed from."""
    kind = torch.kinds.get(name)
    if kind == BUFFER:
        return said(Kind.BUFFER, "a buffer of the module")
    if kind == PARAMETER:
        told = pattern(uses.stored[name])
        if not is_countable(told):
            return said(Kind.PARAMETER, "a parameter of the module")
        return Finding(Kind.CONSTANT, f"a parameter of the module, but {told}", is_doubtful=True)
    parts = torch.parameters_in(name)
    folded = not parts and any(FOLDED_NORM in rules_of(r.node) for r in uses.readers.get(name, ()))
    if not parts and not folded:
        return said(Kind.CONSTANT, "neither a parameter nor a buffer of the module")
    made = "computed from " + (", ".join(parts) if parts else "a batch normalisation")
    by_use = judge(Stored(name, uses.stored[name], is_entry=True), uses)
    if by_use.kind is Kind.PARAMETER:
        return said(Kind.PARAMETER, made)
    return Finding(by_use.kind, f"{made}, and {by_use.reason}", is_doubtful=True)
