"""The identity of a run, and how it changed since its checkpoint was written.

A checkpoint keeps it beside the tensors: what of the compiled step decides its numbers, and what
whoever trains says of the data and of their order. With one of these changed the steps that follow
would still be taken, but not be those of the run.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import WEIGHT_ROLES

# Changes of these alone are those of where and in which pieces it runs, not of what it computes.
_BESIDE = frozenset({"micro-batches", "odtc", "target", "tvm"})


@dataclass(frozen=True)
class Change:
    """A difference from before.

    Attributes:
        what: such as `seed`, or `optimizer.momentum`.
        before: as the checkpoint has it.
        now: as it is given.
    """

    what: str
    before: str
    now: str

    @property
    def makes_another_run(self) -> bool:
        """Whether the steps that follow are not those of the run any more."""
        return self.what not in _BESIDE

    def __str__(self) -> str:
        return f"{self.what}: {self.before}, now {self.now}"


def step_identity(manifest: Manifest) -> dict[str, Any]:
    """The parts of a compiled step that decide its numbers, and `_BESIDE`, which does not."""
    return {
        "loss": manifest.loss,
        "optimizer": manifest.optimizer,
        "update": manifest.update,
        "precision": manifest.precision,
        "batch": manifest.batch,
        "parameters": _parameters(manifest),
        "inputs that were set": dict(manifest.bound),
        "normalisation": dict(manifest.normalized),
        "micro-batches": manifest.micro_batches,
        "target": manifest.target,
        "odtc": manifest.odtc,
        "tvm": manifest.tvm,
    }


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The differences; what only one of them says is left out."""
    old, new = dict(_flat(before)), dict(_flat(now))
    return [
        Change(key, old.get(key, "none"), new.get(key, "none"))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key.partition(".")[0] in before.keys() & now.keys()
    ]


def _flat(said: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in said.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            yield f"{prefix}{key}", text


def _parameters(manifest: Manifest) -> str:
    """Which weights there are, and what is trained of each."""
    items = manifest.of_role(*WEIGHT_ROLES)
    said = [
        [item.role, item.spec.name, item.spec.shape, item.block and asdict(item.block)]
        for item in sorted(items, key=lambda item: item.spec.name)
    ]
    trained = sum(item.role == "parameter" for item in items)
    digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
    return f"{trained} trained of {len(items)} ({digest[:16]})"
