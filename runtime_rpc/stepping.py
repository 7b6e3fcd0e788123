"""Takes training steps: one a call, or several in one call of a device behind a link."""

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.calls import Calls
from odtc.runtime_rpc.feed.feeding import Feeder, Part, Tensors
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.record import UPLOAD
from odtc.runtime_rpc.sessions.session import Runner, Session

# The parts that a step is fed, and its learning rate.
Fed = tuple[Sequence[Part], float]


class Stepping:
    """The training step on a device, with the tensors that it is called with.

    Args:
        manifest: of the artifact.
        session: with the device.
        machine: that runs the step.
        host: that the host's doings are noted with.
        tensors: one for each argument, in their order.

    Attributes:
        calls: of the compiled step.
        feeder: of the tensors that hold a batch.
    """

    def __init__(
        self,
        manifest: Manifest,
        session: Session,
        machine: relax.VirtualMachine,
        host: HostClock,
        tensors: Tensors,
    ) -> None:
        self.calls = Calls(manifest, session, machine, host)
        self._manifest, self._session, self._host = manifest, session, host
        self._tensors = dict(tensors)
        fed = manifest.of_role(Role.INPUT, Role.LABEL)
        self.feeder = Feeder(session, {item: self._tensors[item] for item in fed})
        (self._rate,) = manifest.of_role(Role.LEARNING_RATE)
        (self._step,) = manifest.of_role(Role.STEP)
        self._write_rate = session.writer(self._tensors[self._rate])
        self._write_step = session.writer(self._tensors[self._step])
        self._called_with = list(self._tensors.values())
        self._runner = session.runner()
        # Kept for the next call of as many.
        self._stacks: dict[Argument, tvm.runtime.Tensor] = {}
        self._stacked = 0

    def at_once(self, steps: int) -> int:
        """How many steps of so many one call can take."""
        return steps if self._runner else 1

    def take(self, steps: Sequence[Fed], first: int) -> list[float]:
        """Takes steps; several of them are one call.

        Args:
            steps: what each is fed.
            first: number of steps before them.

        Returns:
            The loss of each.

        Raises:
            DeviceError: the device failed.
        """
        parts = self._manifest.micro_batches
        self.calls.prepare()
        # A step that broke off is taken again from its first part.
        number = first * parts
        with self._session.guard(len(steps) * parts):
            if self._runner and len(steps) > 1:
                losses = self._at_once(self._runner, steps, number)
            else:
                losses = self._one(*steps[0], number)
        return [sum(losses[n : n + parts]) / parts for n in range(0, len(losses), parts)]

    def _one(self, parts: Sequence[Part], rate: float, first: int) -> list[float]:
        """A step of as many calls as there are parts."""
        with self._host.span(UPLOAD):
            self._write_rate(np.float32(rate))
        losses = []
        for number, part in enumerate(parts):
            with self._host.span(UPLOAD):
                self._write_step(np.int32(first + number))
                self.feeder.put(part)
            losses.append(self.calls.run(self._called_with))
        return losses

    def _at_once(self, runner: Runner, steps: Sequence[Fed], first: int) -> list[float]:
        """Steps in one call, for which all that they are fed is stacked."""
        parts = [(part, rate) for fed, rate in steps for part in fed]
        arrays = {
            self._rate: np.array([rate for _, rate in parts], np.float32),
            self._step: np.arange(first, first + len(parts), dtype=np.int32),
            **{item: np.stack([part[item] for part, _ in parts]) for item in parts[0][0]},
        }
        if self._stacked != len(parts):
            self._stacks.clear()
            for item, array in arrays.items():
                self._stacks[item] = tvm.runtime.empty(array.shape, str(array.dtype), runner.memory)
            self._stacked = len(parts)
        with self._host.span(UPLOAD):
            for item, array in arrays.items():
                self._stacks[item].copyfrom(array)
        return self.calls.run_at_once(runner, self._tensors, self._stacks)
