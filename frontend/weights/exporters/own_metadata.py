"""Reads the list of weights that odtc's own export leaves in a file."""

from collections.abc import Collection

import onnx

from odtc.core.errors import ModelError
from odtc.core.onnx_model.quantised_names import plain_name
from odtc.core.onnx_model.weight_list import KEY, read_weight_list
from odtc.frontend.weights.finding import Finding, Kind, said


def read_own_metadata(
    model: onnx.ModelProto, stored: Collection[str], integers: Collection[str]
) -> dict[str, Finding] | None:
    """Reads the file's list of its tensors, by name; None where it has no such list.

    Args:
        model: as it was read.
        stored: names of its float tensors.
        integers: names of all others: what a quantizer put in place of a float tensor is there.

    Raises:
        ModelError: the list is damaged, or names parameters that the file does not have.
    """
    listed = read_weight_list(model)
    if listed is None:
        return None
    there = {*stored, *map(plain_name, integers)}
    unknown = [name for name in (*listed.parameters, *listed.frozen) if name not in there]
    if unknown:
        raise ModelError(
            f"the list of parameters names {len(unknown)} tensors that the file does not have, "
            f"such as {unknown[0]!r}",
            where=f"metadata {KEY}",
            hint="export the model again",
        )
    kinds = dict.fromkeys(listed.buffers, Kind.BUFFER)
    kinds |= dict.fromkeys(listed.parameters, Kind.PARAMETER)
    kinds |= dict.fromkeys(listed.frozen, Kind.FROZEN)
    return {name: said(kind, f"a {kind} in {KEY}") for name, kind in kinds.items()}


def not_listed() -> Finding:
    """The finding for a tensor that a file with such a list does not name."""
    return said(Kind.CONSTANT, f"not listed in {KEY}")
