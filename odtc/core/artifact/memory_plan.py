"""The memory plan of a training step as a record: what an artifact says of its arena.

A step is a list of calls of kernels, counted from 0. A tensor is alive from the call that writes it
to the last one that reads it.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from odtc.core.covered import covered_bytes
from odtc.core.errors import ArtifactError, UsageError
from odtc.core.specs import TensorSpec


class Kind(StrEnum):
    """The role of a tensor of the arena in the step."""

    SAVED = "saved activation"
    ACTIVATION = "transient activation"
    GRADIENT = "gradient"
    PARAMETER_GRADIENT = "parameter gradient"
    WORKSPACE = "workspace"
    OTHER = "other"


@dataclass(frozen=True)
class Origin:
    """The ONNX node that a tensor comes from.

    Attributes:
        node: its name, or `-> OUTPUT` where it has none; empty for the gradient of a parameter.
        tensor: ONNX name of the tensor itself; empty where this is another value of the node, such
            as a statistic.
        gradient: whether this is a gradient of it.
    """

    node: str
    tensor: str = ""
    gradient: bool = False

    def __str__(self) -> str:
        source = self.node or self.tensor
        return f"gradient of {source}" if self.gradient else source


@dataclass(frozen=True)
class PlannedTensor:
    """One tensor of the arena.

    Attributes:
        spec: its name, unlike all others of the plan, shape and dtype.
        kind: what it is to the step.
        offset: where it begins in the arena, in bytes.
        first: the call that writes it.
        last: the last call that it is needed in.
        origins: nodes that its kernel computes, the last one first; of a workspace, those of what
            its call writes. None where it comes from no node, as what updates share.
    """

    spec: TensorSpec
    kind: Kind
    offset: int
    first: int
    last: int
    origins: tuple[Origin, ...] = ()

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.spec.nbytes

    @property
    def tensor(self) -> str:
        """The ONNX tensor that it is, or is the gradient of; else its name in the plan."""
        first = next(iter(self.origins), Origin(""))
        if self.kind is Kind.WORKSPACE or not first.tensor:
            return self.spec.name
        return f"gradient of {first.tensor}" if first.gradient else first.tensor

    @property
    def origin(self) -> str:
        """The nodes that it comes from, the last one first."""
        return ", ".join(map(str, self.origins)) or "no node"


@dataclass(frozen=True)
class MemoryPlan:
    """Where the tensors of a training step lie, and when.

    Attributes:
        calls: names of the kernels, in the order in which they run.
        backward: the first call of the backward pass.
        tensors: what lies in the arena, in the order in which it is written.
        arena_bytes: size of the arena.
        lower_bound_bytes: no plan for these lifespans has a smaller arena.
        result_bytes: of what the step returns, which has storage of its own.
    """

    calls: tuple[str, ...]
    backward: int
    tensors: tuple[PlannedTensor, ...]
    arena_bytes: int
    lower_bound_bytes: int
    result_bytes: int

    @cached_property
    def live_bytes(self) -> tuple[int, ...]:
        """Bytes of the arena that hold a tensor during each call."""
        # A tensor may lie within another one.
        stays = ((t.offset, t.offset + t.nbytes, t.first, t.last) for t in self.tensors)
        return covered_bytes(stays, len(self.calls))

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are alive at one time."""
        return max(self.live_bytes, default=0)

    @property
    def peak_call(self) -> int:
        """The first call with that many."""
        return self.live_bytes.index(self.peak_bytes) if self.calls else 0

    @property
    def proven_optimal(self) -> bool:
        """Whether no plan for these lifespans has a smaller arena."""
        return self.arena_bytes == self.lower_bound_bytes

    def live_at(self, call: int) -> list[PlannedTensor]:
        """Tensors that are alive during a call, the largest first."""
        alive = [tensor for tensor in self.tensors if tensor.first <= call <= tensor.last]
        return sorted(alive, key=lambda tensor: (-tensor.nbytes, tensor.first, tensor.offset))

    def of_kind(self, kind: Kind) -> list[PlannedTensor]:
        """Tensors of a kind, the largest first."""
        return sorted(
            (tensor for tensor in self.tensors if tensor.kind is kind),
            key=lambda tensor: (-tensor.nbytes, tensor.first, tensor.offset),
        )

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(dataclasses.asdict(self))


def memory_plans_json(plans: Iterable[str]) -> str:
    """The JSON text of several plans, of the texts of each."""
    return f"[{','.join(plans)}]"


def parse_memory_plans(text: str | bytes, where: str) -> tuple[MemoryPlan, ...]:
    """Reads plans.

    Raises:
        ArtifactError: these are no plans, or a tensor has no place in its plan.
    """
    try:
        found = json.loads(text)
        if not isinstance(found, list):
            raise TypeError("not a list")
    except (RecursionError, TypeError, ValueError) as error:
        raise _damaged(f"{type(error).__name__}: {error}", where) from error
    return tuple(_plan(data, where) for data in found)


def _plan(data: Mapping[str, Any], where: str) -> MemoryPlan:
    try:
        calls = tuple(map(str, data["calls"]))
        tensors = tuple(_tensor(item) for item in data["tensors"])
        numbers = {name: int(data[name]) for name in data.keys() - {"calls", "tensors"}}
        plan = MemoryPlan(calls=calls, tensors=tensors, **numbers)
        fault = _fault(plan)
    except (
        *(AttributeError, KeyError, OverflowError, TypeError, ValueError),
        UsageError,  # of a spec
    ) as error:
        raise _damaged(f"{type(error).__name__}: {error}", where) from error
    if fault:
        raise _damaged(fault, where)
    return plan


def _tensor(data: Mapping[str, Any]) -> PlannedTensor:
    spec = data["spec"]
    shape = tuple(int(size) for size in spec["shape"])
    origins = (Origin(**item) for item in data["origins"])
    return PlannedTensor(
        spec=TensorSpec(**spec | {"name": str(spec["name"]), "shape": shape}),
        kind=Kind(data["kind"]),
        origins=tuple(origins),
        **{name: int(data[name]) for name in data.keys() - {"spec", "kind", "origins"}},
    )


def _fault(plan: MemoryPlan) -> str:
    """The first fault of the tensors of a plan; empty where nothing is wrong."""
    for tensor in plan.tensors:
        if not 0 <= tensor.first <= tensor.last < len(plan.calls):
            lives = f"{tensor.spec.name} lives in calls {tensor.first} to {tensor.last}"
            return f"{lives}; there are {len(plan.calls)}"
        end = tensor.offset + tensor.nbytes
        if not 0 <= tensor.offset <= end <= plan.arena_bytes:
            return f"{tensor.spec.name} does not lie within {plan.arena_bytes} bytes"
    return ""


def _damaged(why: str, where: str) -> ArtifactError:
    return ArtifactError(
        f"the artifact's memory plan is damaged ({why})",
        where=where,
        hint="compile the model again",
    )
