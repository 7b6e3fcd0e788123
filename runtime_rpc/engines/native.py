"""The native runtime as an engine: this machine's CPU, or a GPU of it.

Feeding is writing to the step's own memory, and a step, whatever its micro-batches, is one call.
On a GPU the memory of weights and state only mirrors it: they are fetched and sent.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from odtc.backends.compiled_for import target_of
from odtc.backends.targets import CPU
from odtc.core.artifact.beside import check_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Evaluation, StepPlan
from odtc.core.disk.files import check_programs
from odtc.core.ir.place import take
from odtc.core.options.cores import cores_of_threads
from odtc.core.specs import FED_ROLES, Argument, Role
from odtc.runtime_rpc.engines.ahead import Ahead
from odtc.runtime_rpc.engines.clocked import clocked_calls
from odtc.runtime_rpc.engines.engine import Instead, Ready
from odtc.runtime_rpc.engines.lengths import Lengths
from odtc.runtime_rpc.engines.native_errors import (
    check_same_step,
    explained,
    opening_errors,
    storage_folder,
)
from odtc.runtime_rpc.engines.over_features import OverFeatures
from odtc.runtime_rpc.feed.batches import Fed
from odtc.runtime_rpc.guards.failures import device_errors
from odtc.runtime_rpc.memory.allocation import Placement, check_placement
from odtc.runtime_rpc.memory.plans import Available, Follower, bytes_left, plan_within
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import (
    MOST_THREADS,
    NativeError,
    loaded_gpu_runtime,
    loaded_runtime,
)
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.launches import Launches, parse_launches
from odtc.runtime_rpc.profile.record import UPLOAD
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.on_core import on_core


class NativeEngine:
    """The step in the native runtime, whose threads are the trainer's own.

    Args and errors are those of `engine_of`.
    """

    def __init__(
        self, bundle: Bundle, session: LocalSession, placement: Placement, host: HostClock
    ) -> None:
        check_programs(bundle.root)
        check_placement(placement, session)
        check_beside(bundle)
        manifest = self._manifest = bundle.manifest
        self._session, self._host = session, host
        # A profile begins and ends beside steps of other threads, and reads the clock's memory.
        self._lock = threading.RLock()
        with opening_errors(bundle, session, placement):
            # Its threads start when their number is set; a bundle is hashed when it is loaded.
            self._native = NativeTrainer(
                bundle.root,
                1,
                storage_folder(placement),
                loaded_runtime() if session.kind == CPU else loaded_gpu_runtime(),
                offload_state=placement.offloaded_from,
                check_weights=False,
                beside=bundle.folder,
            )
        self._threads: tuple[int | None, str | None] = (1, None)
        asked = target_of(manifest).threads
        self._most_threads = min(asked or MOST_THREADS, MOST_THREADS)
        self._core: int | None = None
        shapes = {k: (each.shape, each.dtype.name) for k, each in self._native.tensors.items()}
        check_same_step(manifest, shapes, self._native.arena_bytes)
        self._tensors = {
            item: self._native.tensors[item.role.value, item.spec.name]
            for item in manifest.arguments
        }
        features = [item for each in manifest.features for item in each.arguments]
        for item in features:
            self._tensors[item] = self._native.tensors[item.role.value, item.spec.name]
        fed = (*manifest.of_role(Role.INPUT, Role.LABEL), *features)
        self._write = {item: partial(self._tensors[item].__setitem__, ...) for item in fed}
        self._parts = {
            item: self._native.part(number, item.spec.shape, item.spec.dtype)
            for number, item in enumerate((*manifest.arguments, *features))
            if item.role in (Role.INPUT, Role.FEATURES)
        }
        self._numbers = {item: number for number, item in enumerate(manifest.arguments)}
        self._lengths = Lengths(manifest, self._native.set_length)
        self._add_shorter()
        is_cut = bool(features) and session.kind == CPU
        self._over = OverFeatures(self._put, self._run_part, self._guarded) if is_cut else None
        self._ahead = (
            None if session.kind == CPU else Ahead(self._native, self._feed, self._send_next)
        )
        self._plans = {plan.arena_bytes: plan for plan in manifest.plans}
        self._usual = [each for of in self._lengths.manifests for each in of.evaluations]
        self._follower: Follower | None = None
        self._clocked: dict[str, Any] | None = None

    def _add_shorter(self) -> None:
        """What shorter lengths are fed lies where that of the longest begins."""
        for each in self._lengths.manifests[1:]:
            for number, item in enumerate(each.arguments):
                if item.role in FED_ROLES and item not in self._tensors:
                    longest = self._tensors[self._manifest.arguments[number]]
                    array = _beginning(longest, each.whole(item).spec.shape)
                    part = self._native.part(number, item.spec.shape, item.spec.dtype)
                    self._tensors[item], self._parts[item] = array, part
                    self._write[item] = partial(array.__setitem__, ...)
                    self._numbers[item] = number

    @property
    def plan(self) -> StepPlan:
        """By which the last step ran, or the next one will."""
        if self._manifest.shorter:
            return self._lengths.plan
        return self._plans[self._native.arena_bytes]

    @property
    def over_features(self) -> OverFeatures | None:
        """The step in two parts; None where it trains all of its layers."""
        return self._over

    def use_threads(self, count: int | None, cores: str | None) -> None:
        """Starts the trainer's threads anew, each on a core of its own.

        Whoever takes steps is the first of them, and bound only where cores are chosen; otherwise
        the runtime keeps the others away from the core that the caller is on.
        """
        if self._threads == (count, cores) or self._ahead:
            return
        chosen = cores_of_threads(count or 0, cores, self._session.core_speeds())
        used = chosen[: self._most_threads]
        # Threads may run where the one that starts them may: that leaves its core first.
        self._core = None
        with self._guarded():
            if cores is None:
                self._native.use_threads(len(used))
            else:
                self._native.use_cores(used)
        self._threads = count, cores
        self._core = chosen[0] if cores else None

    def at_once(self, steps: int) -> int:
        """A call of this process crosses no link."""
        return min(steps, 1)

    def take(
        self, steps: Sequence[Ready], first: int, following: Callable[[], Fed | None]
    ) -> list[float]:
        """Takes a step, in as many micro-batches as there are."""
        ((fed, rate),) = steps
        if self._follower:
            self._change_to(self._follower.choose(self.plan, self._native.held_bytes))
        with self._guarded():
            self._lengths.use(fed.length)
            # The trainer's count holds: a step that was interrupted as it ended is not in it.
            if first != self._native.steps:
                self._native.steps = first
            if self._ahead is None:
                self._feed(fed)
                return [self._step(fed, rate)]
            self._ahead.feed(fed, following)
            try:
                return [self._step(fed, rate)]
            finally:
                self._ahead.after_step()

    def _send_next(self, fed: Fed) -> None:
        """Gives a GPU the next batch; floats go there without a copy in the step's own memory."""
        assert self._ahead
        on_gpu, direct = self._ahead.on_gpu, {}
        self._lengths.use(fed.length)
        with self._host.span(UPLOAD):
            for item, array in fed.whole.items():
                if _is_as_it_lies(array, self._tensors[item]):
                    direct[self._numbers[item]] = array
                else:
                    self._write[item](array)
            if on_gpu.send_next_from(direct):
                return
        self._feed(fed)
        on_gpu.send_next()

    def _feed(self, fed: Fed) -> None:
        with self._host.span(UPLOAD):
            for item, array in fed.whole.items():
                self._write[item](array)

    def _step(self, fed: Fed, rate: float) -> float:
        begin = time.monotonic()
        loss = self._native.step_at_any_loss(rate, over_features=fed.has_features)
        # One that failed is not the last that was taken.
        self._lengths.taken = fed.length
        # By which plan is known now: where there is no memory, the runtime takes a smaller one.
        parts = self._manifest.micro_batches
        self._host.note(self.plan.function, begin, parts, [fed.length] * parts)
        return loss

    def evaluate(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], instead: Instead
    ) -> np.ndarray:
        """An output of one micro-batch, or of as many samples as the evaluation is of."""
        if self._ahead:
            self._ahead.forget()
        with self._guarded():
            self._lengths.use(self._lengths.of(arrays))
        if evaluation not in self._usual:
            return self._evaluate_fewer(evaluation, arrays, ema=bool(instead))
        with self._guarded():
            for item, array in arrays.items():
                self._parts[item][...] = array
            return self._native.evaluate_part(evaluation.output.name, ema=bool(instead))

    def _put(self, item: Argument, array: np.ndarray) -> None:
        self._parts[item][...] = array

    def _run_part(self, name: str, ema: bool) -> np.ndarray:
        return self._native.evaluate_part(name, ema=ema)

    def _evaluate_fewer(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], *, ema: bool
    ) -> np.ndarray:
        assert evaluation.place
        samples = evaluation.place.count(evaluation.output.shape)
        with self._guarded():
            for item, array in arrays.items():
                whole = self._tensors[item]
                first = take(whole, item.place, slice(samples)) if item.place else whole
                first[...] = array
            return self._native.evaluate_samples(samples, evaluation.output.name, ema=ema)

    def read(self, items: Iterable[Argument]) -> dict[Argument, np.ndarray]:
        """Copies of tensors as they are now."""
        with self._guarded():
            return {item: self._fetched(item).copy() for item in items}

    def _fetched(self, item: Argument) -> np.ndarray:
        if self._ahead:
            self._ahead.on_gpu.fetch(self._numbers[item])
        return self._tensors[item]

    def write(self, values: Mapping[Argument, np.ndarray]) -> None:
        """Gives tensors other elements."""
        if self._over and any(item.role is Role.FROZEN for item in values):
            self._over.writes += 1
        with self._guarded():
            for item, value in values.items():
                self._tensors[item][...] = value
                if self._ahead:
                    self._ahead.on_gpu.send(self._numbers[item])

    def restart(self, steps: int) -> None:
        """Says that what was written is all that a step leaves behind, after so many steps."""
        self._native.steps = steps

    def set_budget(self, budget: int) -> None:
        """Takes steps from now on by the fastest plan that fits; each length has but one."""
        plan = plan_within(self._manifest, budget)
        self._follower = None
        if not self._manifest.shorter:
            self._change_to(plan)

    def follow(self, available: Available, reserve: int) -> None:
        """Chooses the plan before each step."""
        bytes_left(available)
        if not self._manifest.shorter:
            self._follower = Follower(self._manifest.plans, available, reserve)

    def _change_to(self, plan: StepPlan) -> None:
        if plan != self.plan:
            with self._guarded():
                self._native.set_budget(self._manifest.budget_of(plan))

    @contextmanager
    def clocked(self) -> Iterator[dict[str, Any]]:
        """A block in which the runtime notes the time of each call."""
        found: dict[str, Any] = {}
        with self._guarded():
            self._native.start_clock()
            self._clocked = found
        try:
            yield found
        finally:
            self._end_clock()

    def _end_clock(self) -> None:
        """Fills in what was clocked, once: a trainer may be closed within the block."""
        with self._guarded():
            if (found := self._clocked) is None:
                return
            self._clocked = None
            calls = self._native.stop_clock()
        found |= clocked_calls(calls)

    def launches(self) -> Launches:
        """What kernels launch on a GPU."""
        if not self._ahead:
            return {}
        with self._guarded():
            return parse_launches(self._ahead.on_gpu.kernels(), self._session.name)

    def close(self) -> None:
        """Gives all memory back."""
        self._end_clock()
        self._write, self._parts = {}, {}
        self._tensors.clear()
        self._native.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """A block in which this thread is on its core, and the runtime's failures are odtc's."""
        name = self._session.name
        place = device_errors(name) if self._core is None else on_core(self._core, name)
        with self._lock, place:
            try:
                yield
            except NativeError as error:
                raise explained(error, self._manifest, self._session) from error


def _beginning(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What lies at the beginning of an array's memory, as an array of a smaller shape."""
    return array.reshape(-1)[: math.prod(shape)].reshape(shape)


def _is_as_it_lies(array: np.ndarray, tensor: np.ndarray) -> bool:
    """Whether an array has the bytes that a tensor is to have; integers are checked in those."""
    is_alike = array.dtype == tensor.dtype and array.shape == tensor.shape
    return is_alike and array.dtype.kind == "f" and array.flags.c_contiguous
