"""This process as a device whose tensors all lie in guarded memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import tvm

from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.specs import Argument
from odtc.runtime_rpc.memory import allocation
from tests.guarded.memory import PAGE, Guarded, end_aligned, whole_pages
from tests.guarded.plan import Tensors


@dataclass(frozen=True)
class GuardedSession(VirtualMachineHere):
    """This process.

    Attributes:
        plans: where the tensors of an arena lie, by its bytes.
        value: a byte that memory holds before anything writes it.
        held: all that was allocated.
    """

    plans: Mapping[int, Tensors] = field(default_factory=dict, hash=False, compare=False)
    value: int = 0
    held: list[Guarded] = field(default_factory=list, hash=False, compare=False)

    def pages(self) -> Callable[[int], Any]:
        """The arena of a step."""

        def arena(nbytes: int) -> list[tvm.runtime.Tensor]:
            return [self._new(self.plans[nbytes], nbytes).tensor(0, (nbytes,), "uint8")]

        return arena

    def argument(self, item: Argument) -> tvm.runtime.Tensor:
        """A tensor that the step is called with."""
        spec = item.spec
        begin = PAGE + end_aligned(spec.nbytes)
        guarded = self._new([(begin, spec.nbytes)], 2 * PAGE + whole_pages(spec.nbytes))
        return guarded.tensor(begin, spec.shape, spec.dtype)

    def wrong(self) -> str:
        """Describes writes beside tensors; '' where there were none."""
        found = [(each.nbytes, each.written_beside(self.value)) for each in self.held]
        return "; ".join(f"of {size} bytes, {at[:8]}" for size, at in found if at)

    def forget(self, nbytes: int) -> None:
        """Overwrites an arena, whose contents may be lost between two steps."""
        for each in self.held:
            if each.nbytes == nbytes:
                each.fill(self.value)

    def _new(self, tensors: Tensors, nbytes: int) -> Guarded:
        self.held.append(Guarded(tensors, nbytes))
        self.held[-1].fill(self.value)
        return self.held[-1]


@contextmanager
def guarded_arguments() -> Iterator[None]:
    """Trainers that are made within the block have guarded arguments, in such sessions."""

    def in_memory(item: Argument, session: GuardedSession, _: object) -> tvm.runtime.Tensor:
        return session.argument(item)

    with patch.object(allocation, "_in_memory", in_memory):
        yield
