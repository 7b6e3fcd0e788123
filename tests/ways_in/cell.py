"""One cell of the table: a family, exported in one way, beside PyTorch."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

import odtc
from odtc.backends.targets import parse_target
from odtc.core.errors import OdtcError
from odtc.core.specs import Role
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from tests.families import BATCH, FAMILIES, Family, make
from tests.ways_in.ways import WAYS

STEPS = 5
# Of a loss, relative or absolute.
TOLERANCE = 1e-4


class Outcome(StrEnum):
    """How a cell ends."""

    EQUAL = "equal"
    WARNED = "warned"
    REFUSED = "refused"
    NO_EXPORT = "PyTorch cannot export it"
    SILENT = "SILENT"


@dataclass(frozen=True)
class Cell:
    """The outcome of a model family exported in one way.

    Attributes:
        outcome: equal losses and the same trained tensors; or another model, and odtc says so or
            refuses; or silence, which is a fault.
        difference: the largest of the losses' over the steps, relative where a loss is above 1.
        lost: the module's parameters that are not trained as such.
        extra: what is trained and is no parameter of the module.
        said: what `odtc check` notes, or the error.
    """

    outcome: Outcome
    difference: float = 0.0
    lost: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


def fill(name: str, way: str, folder: Path) -> Cell:
    """Fills a cell.

    Args:
        name: of the family.
        way: of the export.
        folder: for its files.
    """
    family, path = FAMILIES[name], folder / f"{name}.onnx"
    module, inputs = make(name), seeded(family.inputs)
    try:
        WAYS[way][1](copy.deepcopy(module), inputs, path)
    except OdtcError as error:
        return Cell(Outcome.REFUSED, said=(str(error),))
    except Exception as error:  # PyTorch's exporters raise anything
        return Cell(Outcome.NO_EXPORT, said=(f"{type(error).__name__}: {error}"[:200],))
    label = seeded(family.label)
    reference = torch_losses(module, family, inputs, label)
    try:
        loss, renamed = by_output(family.text, path)
        options: dict[str, Any] = {"loss": loss, "batch": BATCH}
        said = tuple(examine(str(path), parse_target("host-cpu"), StepOptions(**options)).notes)
        artifact = odtc.compile(path, **options)
    except OdtcError as error:
        return Cell(Outcome.REFUSED, said=(str(error),))
    with_inputs = fed(inputs, [spec.name for spec in artifact.manifest.inputs])
    trainer = artifact.trainer(threads=1)
    lost, extra = compare(make(name), trainer, artifact)
    labels = (
        label.numpy()
        if isinstance(label, torch.Tensor)
        else {renamed[name]: value.numpy() for name, value in label.items()}
    )
    try:
        losses = [trainer.step(with_inputs, labels, lr=family.lr) for _ in range(STEPS)]
        trainer.export_onnx(folder / "trained.onnx")
    except OdtcError as error:
        return Cell(Outcome.SILENT, 1e9, lost, extra, (*said, str(error)))
    gaps = np.abs(np.subtract(losses, reference)) / np.maximum(np.abs(reference), 1)
    difference, facts = float(gaps.max()), (lost, extra, said)
    if difference <= TOLERANCE and not lost and not extra:
        return Cell(Outcome.EQUAL, difference, *facts)
    norms = norms_of(module)
    told = all(
        is_named(each, said) or (each in norms and tells_of_norms(said)) for each in lost
    ) and all(is_named(each, said) or is_made_up(each) for each in extra)
    is_said = told and bool(lost or extra)
    return Cell(Outcome.WARNED if is_said else Outcome.SILENT, difference, *facts)


def by_output(
    loss: str | dict[str, str], path: Path
) -> tuple[str | dict[str, str], dict[str, str]]:
    """The losses by the file's names of the outputs, and these names by the module's."""
    if isinstance(loss, str):
        return loss, {}
    outputs = onnx.load(path, load_external_data=False).graph.output
    renamed = dict(zip(loss, (value.name for value in outputs), strict=True))
    return {renamed[name]: text for name, text in loss.items()}, renamed


def seeded(draw: Any) -> Any:
    """Inputs or labels of a batch, the same each time."""
    torch.manual_seed(1)
    return draw(BATCH)


def torch_losses(module: nn.Module, family: Family, inputs: Any, label: Any) -> list[float]:
    """Losses of PyTorch's steps of plain SGD."""
    optimizer = torch.optim.SGD(module.parameters(), lr=family.lr)
    losses = []
    for _ in range(STEPS):
        output = module(*inputs) if isinstance(inputs, tuple) else module(**inputs)
        loss = family.loss(output, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def fed(inputs: Any, names: list[str]) -> Mapping[str, np.ndarray]:
    """Inputs by the file's names, which may be others, in the same order."""
    given = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
    by_name = inputs if isinstance(inputs, dict) else {}
    pairs = zip(names, given, strict=False)
    return {name: by_name.get(name, value).numpy() for name, value in pairs}


def compare(
    module: nn.Module, trainer: odtc.Trainer, artifact: odtc.Artifact
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The module's parameters that are not trained, and what is trained beside them.

    A tensor is known by its name, else by its values, which exporters transpose and rename.
    """
    weights = trainer.parameters()
    trained = {item.spec.name for item in artifact.manifest.of_role(Role.PARAMETER)}
    wanted = {name: value.detach().numpy() for name, value in module.named_parameters()}
    lost = []
    for name, value in wanted.items():
        same = [name] if name in trained else []
        same += [each for each in trained - wanted.keys() if is_same(weights[each], value)]
        if same:
            trained.discard(same[0])
        else:
            lost.append(name)
    return tuple(lost), tuple(sorted(trained))


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two tensors hold the same values, one of them perhaps transposed."""
    turns = [other, other.T] if other.ndim == 2 else [other]
    return any(one.shape == turn.shape and np.array_equal(one, turn) for turn in turns)


def norms_of(module: nn.Module) -> set[str]:
    """Names of the parameters of batch normalisations."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
    parts = ((name, part) for name, part in module.named_modules() if isinstance(part, kinds))
    return {f"{name}.{each}" for name, part in parts for each, _ in part.named_parameters()}


def tells_of_norms(said: Sequence[str]) -> bool:
    """Whether a note says that the exporter folded some: a file may not know their names."""
    return any("exporter" in note and "batch normalisations" in note for note in said)


def is_made_up(name: str) -> bool:
    """Whether the exporter made a name up, for what it computed of tensors that it then lost."""
    return "::" in name


def is_named(name: str, said: Sequence[str]) -> bool:
    """Whether a note names a tensor, or one on what the exporter did its module."""
    module = name.rpartition(".")[0]
    if module and any(_has(module, note) for note in said if "exporter" in note):
        return True
    return any(_has(name, note) for note in said)


def _has(name: str, note: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]*\w)", note) is not None
