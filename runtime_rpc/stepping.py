"""Takes training steps: one a call, or several in one call of a device behind a link."""

from collections.abc import Callable, Sequence

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
        # What the last call was fed, and all that it was called with.
        self._fed: Tensors = {}
        self._called_with: list[tvm.runtime.Tensor] = []
        self._runner = session.runner()
        # Kept for the next call of as many.
        self._stacks: dict[Argument, tvm.runtime.Tensor] = {}
        self._stacked = 0

    def at_once(self, steps: int) -> int:
        """How many steps of so many one call can take."""
        return steps if self._runner else 1

    def take(
        self, steps: Sequence[Fed], first: int, following: Callable[[], Sequence[Part] | None]
    ) -> list[float]:
        """Takes steps; several of them are one call.

        Args:
            steps: what each is fed.
            first: number of steps before them.
            following: the parts of the step after them; None where there is none.

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
                losses = self._one(*steps[0], number, following)
        return [sum(losses[n : n + parts]) / parts for n in range(0, len(losses), parts)]

    def _one(
        self,
        parts: Sequence[Part],
        rate: float,
        first: int,
        following: Callable[[], Sequence[Part] | None],
    ) -> list[float]:
        """A step of as many calls as there are parts; the next part is sent ahead of its call."""
        with self._host.span(UPLOAD):
            self._write_rate(np.float32(rate))
        losses = []
        for number, part in enumerate(parts):
            with self._host.span(UPLOAD):
                self._write_step(np.int32(first + number))
                tensors = self._all_with(self.feeder.take(part))

            def meanwhile(number: int = number) -> None:
                if self._session.computes_aside:
                    for part in (parts[number + 1 :] or following() or ())[:1]:
                        with self._host.span(UPLOAD):
                            self.feeder.send_ahead(part)

            losses.append(self.calls.run(tensors, meanwhile))
        return losses

    def _all_with(self, fed: Tensors) -> list[tvm.runtime.Tensor]:
        """All tensors of a call that is fed with these."""
        if fed is not self._fed:
            self._fed, self._called_with = fed, list((self._tensors | fed).values())
        return self._called_with

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
