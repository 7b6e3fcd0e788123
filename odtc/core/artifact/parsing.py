"""Reads a manifest back, with every key checked."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from odtc.core.adapters import Adapter
from odtc.core.artifact.layout_plan import read_layout_plan
from odtc.core.artifact.manifest import (
    SCHEMA,
    Evaluation,
    Features,
    Manifest,
    Shorter,
    Sizes,
    StepPlan,
)
from odtc.core.coded import Coded, Shared
from odtc.core.counted import Counted
from odtc.core.errors import ArtifactError
from odtc.core.ir.place import Place
from odtc.core.specs import FED_ROLES, Argument, Block, Classes, Role, TensorSpec


def parse_manifest(text: str | bytes, where: str) -> Manifest:
    """Reads a manifest.

    Raises:
        ArtifactError: it is not a manifest, or of a schema that this version does not know.
    """
    try:
        data = json.loads(text)
        schema = data["schema"]
    except (ValueError, KeyError, RecursionError, TypeError) as error:
        raise ArtifactError("not an odtc artifact: its manifest is damaged", where=where) from error
    if schema != SCHEMA:
        raise ArtifactError(
            f"the artifact has schema {schema}; this version of odtc reads schema {SCHEMA}",
            where=where,
            hint="compile the model again with this version of odtc",
        )
    try:
        data["arguments"] = tuple(_argument(item) for item in data["arguments"])
        data["plans"] = _plans(data["plans"])
        data["evaluations"] = tuple(_evaluation(item) for item in data["evaluations"])
        data["adapters"] = tuple(Adapter(**item) for item in data["adapters"])
        data["sizes"] = Sizes(**data["sizes"])
        data["micro_batches"] = int(data["micro_batches"])
        data["notes"] = tuple(data["notes"])
        data["tuned"] = dict(data["tuned"])
        data["layouts"] = data["layouts"] and read_layout_plan(data["layouts"])
        data["bound"] = dict(data["bound"])
        # Steps that were compiled before there were these do not say it.
        data["normalized"] = {str(k): str(v) for k, v in data.get("normalized", {}).items()}
        data["columns"] = {str(k): tuple(map(str, v)) for k, v in data.get("columns", {}).items()}
        data["kernels"] = {str(k): int(n) for k, n in data.get("kernels", {}).items()}
        data["coded"] = tuple(_coded(item) for item in data.get("coded", ()))
        data["counted"] = tuple(_counted(item) for item in data.get("counted", ()))
        data["features"] = tuple(_features(item) for item in data.get("features", ()))
        data["shared"] = {k: Shared(**item) for k, item in data.get("shared", {}).items()}
        data["length"] = int(data.get("length", 0))
        data["shorter"] = tuple(_shorter(item) for item in data.get("shorter", ()))
        data["base"] = str(data.get("base", ""))
        data["files"] = dict(data["files"])
        manifest = Manifest(**data)
        if manifest.micro_batches < 1:
            raise ValueError(f"micro_batches is {manifest.micro_batches}")
        if not manifest.plans:
            raise ValueError("there is no training step")
        _check_lengths(manifest)
        return manifest
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"the artifact's manifest is damaged ({type(error).__name__}: {error})",
            where=where,
            hint="compile the model again",
        ) from error


def _check_lengths(manifest: Manifest) -> None:
    """Checks that shorter lengths are shorter, and feed what the longest does.

    Raises:
        ValueError: they do not.
    """
    longest, fed = manifest.length, [item.spec.name for item in manifest.of_role(*FED_ROLES)]
    for each in manifest.shorter:
        if not 0 < each.length < longest or not each.plans:
            raise ValueError(f"a length of {each.length} is behind one of {longest}")
        if [item.spec.name for item in each.fed] != fed:
            raise ValueError(f"the length {each.length} has other inputs or labels")
        longest = each.length


def _plans(data: Sequence[Mapping[str, Any]]) -> tuple[StepPlan, ...]:
    return tuple(
        StepPlan(str(item["function"]), int(item["arena_bytes"]), float(item["time"]))
        for item in data
    )


def _shorter(data: Mapping[str, Any]) -> Shorter:
    return Shorter(
        int(data["length"]),
        tuple(map(_argument, data["fed"])),
        _plans(data["plans"]),
        tuple(map(_evaluation, data["evaluations"])),
        int(data["train_step"]),
        int(data["evaluate"]),
    )


def _evaluation(data: Mapping[str, Any]) -> Evaluation:
    return Evaluation(
        str(data["function"]),
        _spec(data["output"]),
        tuple(data["inputs"]),
        _place(data["place"], data["output"]["shape"]),
        tuple(_evaluation(item) for item in data["smaller"]),
    )


def _features(data: Mapping[str, Any]) -> Features:
    arguments = tuple(_argument(item) for item in data["arguments"])
    return Features(str(data["of"]), arguments, tuple(map(str, data["inputs"])))


def _argument(data: Mapping[str, Any]) -> Argument:
    classes = None if data["classes"] is None else Classes(**data["classes"])
    block = None if data["block"] is None else Block(**data["block"])
    initial, spec = float(data["initial"]), _spec(data["spec"])
    place = _place(data["place"], spec.shape)
    # Steps that were compiled before indices were checked do not say it.
    known = {"initial": initial, "place": place, "rows": int(data.get("rows", 0))}
    return Argument(Role(data["role"]), spec, classes, block, **known)


def _coded(data: Mapping[str, Any]) -> Coded:
    sizes = {key: tuple(map(int, data[key])) for key in ("shape", "blocks")}
    return Coded(**{**data, **sizes})


def _counted(data: Mapping[str, Any]) -> Counted:
    cut = tuple((int(axis), int(before), int(after)) for axis, before, after in data["cut"])
    return Counted(str(data["name"]), Classes(**data["classes"]), cut)


def _place(data: Mapping[str, Any] | None, shape: Sequence[int]) -> Place | None:
    """Where samples lie in a tensor of that shape.

    Raises:
        ValueError: they cannot lie there.
    """
    if data is None:
        return None
    place = Place(int(data["axis"]), int(data["outer"]), int(data["inner"]))
    if min(place.axis, place.outer - 1, place.inner - 1) < 0 or not place.fits(shape):
        raise ValueError(f"the samples of shape {list(shape)} lie at {place}")
    return place


def _spec(data: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(str(data["name"]), tuple(int(d) for d in data["shape"]), str(data["dtype"]))
