"""A device that takes several steps in one call, in this process: a test can be in its way."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm

from benchmarks.virtual_machine import VirtualMachineHere
from odtc.runtime_rpc.server.running import run_steps
from odtc.runtime_rpc.sessions.session import Runner


@dataclass(frozen=True)
class AtOnce(VirtualMachineHere):
    """This process as a device behind a link, so that a test can be in its way."""

    run: Callable[..., str] = run_steps

    def runner(self) -> Runner:
        return Runner(tvm.cpu(), self.run)


def failing_behind(steps: int, text: str) -> Callable[..., str]:
    """Runs up to so many steps, then says once that the next one has failed."""
    failures = [text]

    def run(machine: Any, name: str, places: str, first: int, *tensors: Any) -> str:
        if not failures:
            return run_steps(machine, name, places, first, *tensors)
        count = places.count(",") + 1
        cut = [
            stack._create_view((first + steps, *stack.shape[1:]), str(stack.dtype))
            for stack in tensors[-count:]
        ]
        answer = json.loads(run_steps(machine, name, places, first, *tensors[:-count], *cut))
        return json.dumps(answer | {"failure": failures.pop()})

    return run
