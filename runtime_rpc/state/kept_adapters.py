"""Several adapters in one checkpoint: the base once, and beside it what is not at work.

    adapters    of the metadata: {"active": NAME, "all": {NAME: {"step": N, "run": {...}}}}
    odtc-adapter:NAME:TENSOR    a tensor of an adapter that is not at work

The one at work has its tensors' own names, and its steps where they are in every checkpoint.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.tensor_file import DamagedError
from odtc.core.specs import Argument
from odtc.runtime_rpc.state.adapter_names import ADAPTER_NAME
from odtc.runtime_rpc.state.parked import PROGRESS, Parked, saved_arguments

ADAPTERS = "adapters"


@dataclass(frozen=True)
class Adapters:
    """The adapters of a trainer.

    Attributes:
        active: name of the one at work.
        parked: by name and in order, with None for the one at work.
    """

    active: str
    parked: Mapping[str, Parked | None]

    @property
    def others(self) -> dict[str, Parked]:
        """Those that are not at work."""
        return {name: parked for name, parked in self.parked.items() if parked is not None}

    def text(self) -> str:
        """What a checkpoint says of them, beside their tensors."""
        said = {
            name: {} if each is None else {"step": each.steps, "run": each.record}
            for name, each in self.parked.items()
        }
        return json.dumps({"active": self.active, "all": said})

    def tensors(self, manifest: Manifest) -> dict[str, np.ndarray]:
        """The tensors of those that are not at work, by their names in a file."""
        return {
            name: self.others[adapter].tensors[item.spec.name]
            for adapter, name, item in _named(manifest, self.steps)
        }

    @property
    def steps(self) -> dict[str, int]:
        """The steps of those that are not at work."""
        return {name: each.steps for name, each in self.others.items()}


def named_arguments(text: str | None, manifest: Manifest) -> dict[str, Argument]:
    """The arguments of adapters that are not at work, by their names in a file.

    Args:
        text: of `Adapters`; None where there is one adapter.
        manifest: of the step.

    Raises:
        DamagedError: it is none.
    """
    return {name: item for _, name, item in _named(manifest, _read(text).steps)} if text else {}


def read_adapters(text: str) -> dict[str, Parked | None]:
    """What a checkpoint says of its adapters, without tensors; None of the one at work.

    Raises:
        DamagedError: it says what there cannot be.
    """
    return dict(_read(text).parked)


def adapters_of(
    text: str | None, manifest: Manifest, tensors: Mapping[str, np.ndarray]
) -> Adapters | None:
    """The adapters of a file, which has all of `named_arguments`; None where it has but one.

    Raises:
        DamagedError: the text is none.
    """
    if not text:
        return None
    said = _read(text)
    found: dict[str, dict[str, np.ndarray]] = {name: {} for name in said.others}
    for adapter, name, item in _named(manifest, said.steps):
        found[adapter][item.spec.name] = tensors[name]
    return Adapters(
        said.active,
        {name: each and replace(each, tensors=found[name]) for name, each in said.parked.items()},
    )


def _named(manifest: Manifest, steps: Mapping[str, int]) -> Iterator[tuple[str, str, Argument]]:
    """Each adapter's arguments: its name, the tensor's in a file, and the argument."""
    for adapter, step in steps.items():
        for item in saved_arguments(manifest, step, base=False):
            yield adapter, f"odtc-adapter:{adapter}:{item.spec.name}", item


def _read(text: str) -> Adapters:
    """What a checkpoint says, without tensors.

    Raises:
        DamagedError: it says what there cannot be.
    """
    try:
        data = json.loads(text)
        active, every = data["active"], data["all"]
        parked = {name: None if name == active else _read_one(said) for name, said in every.items()}
        if active not in parked or not all(map(ADAPTER_NAME.fullmatch, parked)):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError("it has no adapters where it says so") from error
    return Adapters(active, parked)


def _read_one(said: Mapping[str, Any]) -> Parked:
    step, run = said["step"], {str(k): str(v) for k, v in said["run"].items()}
    if type(step) is not int or not 0 <= step < 2**31:
        raise ValueError
    return Parked(step, {}, run.pop(PROGRESS, ""), run, is_stored=True)
