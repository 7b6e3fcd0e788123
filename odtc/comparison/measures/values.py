"""Losses on a device beside those on this machine: values alone, since an emulator has no times."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odtc.comparison.measures.parity import disagreement
from odtc.core.disk.row_file import RowFile
from odtc.core.typed import any_floats, typed

KIND = "values"


@dataclass(frozen=True)
class Values:
    """The first steps of a model, here and there.

    Attributes:
        model: its name.
        batch: samples in a step.
        lr: learning rate of plain SGD.
        here: losses on this machine.
        there: losses on the device.
        planned: bytes of the device's step: arena, parameters and optimizer state.
    """

    model: str
    batch: int
    lr: float
    here: tuple[float, ...]
    there: tuple[float, ...]
    planned: int

    @property
    def disagreement(self) -> str:
        """Describes how the losses differ; '' where they agree."""
        return disagreement(self.there, self.here)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return dataclasses.asdict(self)


def losses_text(losses: Sequence[float]) -> str:
    """Losses for people."""
    return ", ".join(f"{loss:.5f}" for loss in losses)


def values_of_what(head: Mapping[str, Any]) -> str:
    """Describes the rows of a file of values, by its head."""
    device = "an emulated device" if head["emulated"] else "a device"
    commit = f", commit {head['commit'][:12]}" if head.get("commit") else ""
    return (
        f"Values only: losses of the first steps on {device} ({head['target']}), and on this "
        f"machine; nothing was timed. odtc {head['versions']['odtc']}{commit}."
    )


def values_of(data: Mapping[str, Any]) -> Values:
    """Reads a row from the form of `to_dict`.

    Raises:
        KeyError: something lacks.
        ValueError: something is of another type, or there are no losses, or more of one device.
    """
    here, there = (any_floats(data[key]) for key in ("here", "there"))
    if not len(here) == len(there) > 0:
        raise ValueError(f"{len(there)} losses there and {len(here)} here")
    told = {**data, "here": (), "there": ()}
    return dataclasses.replace(typed(Values, told), here=here, there=there)


def values_file(path: Path, identity: Mapping[str, Any]) -> RowFile[Values]:
    """The file of such rows; see `RowFile` for errors."""
    return RowFile(path, KIND, identity, values_of)
