"""The native runtime of a device as an engine: its server takes the steps, behind TVM's RPC.

What a step is fed travels with its call, and losses come back: several steps are one call.
"""

import json
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from odtc.backends.compiled_for import target_of
from odtc.backends.targets import CPU
from odtc.core.artifact.bundle import LIBRARY, PARAMETERS, PROGRAM, Bundle
from odtc.core.artifact.manifest import Evaluation, StepPlan
from odtc.core.errors import UnsupportedError
from odtc.core.ir.place import take
from odtc.core.options.cores import cores_of_threads
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.engines.clocked import clocked_calls
from odtc.runtime_rpc.engines.engine import Instead, Ready
from odtc.runtime_rpc.engines.kept_weights import kept_weights, sent_again
from odtc.runtime_rpc.engines.lengths import Lengths
from odtc.runtime_rpc.engines.native_errors import check_same_step, explained, not_opened
from odtc.runtime_rpc.engines.over_features import OverFeatures
from odtc.runtime_rpc.engines.served_program import ServedProgram, uploaded
from odtc.runtime_rpc.feed.batches import Fed
from odtc.runtime_rpc.memory.allocation import Placement, check_placement
from odtc.runtime_rpc.memory.plans import Available, Follower, bytes_left, plan_within
from odtc.runtime_rpc.native.interface import DTYPES, MOST_THREADS, ROLES, Code, NativeError
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.launches import Launches, parse_launches
from odtc.runtime_rpc.sessions.remote import RemoteSession
from odtc.runtime_rpc.tracker.told import understood

# Of an answer: losses that follow, and a code; 0 where all steps were taken.
_HEAD = struct.Struct("<II")
_OVER_FEATURES = "take_steps_over_features"
_DESCRIBE = "describe_kernels"


class ServedEngine:
    """The step in the native runtime of a device.

    Args and errors are those of `engine_of`.
    """

    def __init__(
        self, bundle: Bundle, session: RemoteSession, placement: Placement, host: HostClock
    ) -> None:
        manifest = self._manifest = bundle.manifest
        self._session, self._host = session, host
        if bundle.program is None:
            raise UnsupportedError(
                "the artifact has no program, and this device's server runs nothing else",
                where=session.name,
                hint="compile the model again with this version",
            )
        check_placement(placement, session)
        folder = placement.folder or ""
        try:
            self._call = _opened(bundle, session, placement).call
            check_same_step(manifest, self._shapes(), self._state("arena"))
        except NativeError as error:
            raise not_opened(error, manifest, session, folder) from error
        features = [item for each in manifest.features for item in each.arguments]
        self._lengths = Lengths(manifest, partial(self._call, "set_length"))
        every = [each.arguments for each in self._lengths.manifests]
        self._places = {item: n for each in every for n, item in enumerate((*each, *features))}
        # Of a GPU there is no step in two parts, and an older server takes none.
        is_cut = bool(features) and session.kind == CPU and has_function(session, _OVER_FEATURES)
        self._over = OverFeatures(self._put, self._run_part, self._explained) if is_cut else None
        asked = target_of(manifest).threads
        self._most_threads = min(asked or MOST_THREADS, MOST_THREADS)
        self._usual = [each for of in self._lengths.manifests for each in of.evaluations]
        self._plans = {plan.arena_bytes: plan for plan in manifest.plans}
        self._follower: Follower | None = None

    def _told(self, name: str) -> Any:
        answer = str(self._call(name))
        with understood("the device", self._session.name):
            return json.loads(answer)

    def _state(self, what: str) -> int:
        state = self._told("state")
        with understood("the device", self._session.name):
            return int(state[what])

    def _shapes(self) -> dict[tuple[str, str], tuple[tuple[int, ...], str]]:
        """Shape and dtype of each tensor, by role and name."""
        tensors = self._told("tensors")
        with understood("the device", self._session.name):
            return {
                (ROLES[role], name): (tuple(shape), DTYPES[code, bits])
                for role, name, code, bits, shape in tensors
            }

    @property
    def plan(self) -> StepPlan:
        """By which the last step ran, or the next one will."""
        if self._manifest.shorter:
            return self._lengths.plan
        with self._explained():
            return self._plans[self._state("arena")]

    @property
    def over_features(self) -> OverFeatures | None:
        """The step in two parts; None where it trains all of its layers."""
        return self._over

    def use_threads(self, count: int | None, cores: str | None) -> None:
        """Starts the trainer's threads anew, each on a core of its own; a GPU has none."""
        if self._session.kind != CPU:
            return
        speeds = self._session.core_speeds()
        assert speeds is not None, "the server says it"
        chosen = cores_of_threads(count or 0, cores, speeds)[: self._most_threads]
        with self._explained():
            self._call("use_cores", ",".join(map(str, chosen)), int(cores is not None))

    def at_once(self, steps: int) -> int:
        """As many as are asked for: none of them waits for the link."""
        return steps

    def take(
        self, steps: Sequence[Ready], first: int, following: Callable[[], Fed | None]
    ) -> list[float]:
        """Takes steps, in one call."""
        fed = b"".join(
            step.whole[item].tobytes() for step, _ in steps for item in self._fed_items(step)
        )
        name, more = self._way(steps)
        rates = np.array([rate for _, rate in steps], np.float32).tobytes()
        with self._explained():
            if self._follower:
                state = self._told("state")
                with understood("the device", self._session.name):
                    plan, held = self._plans[state["arena"]], int(state["held"])
                self._change_to(self._follower.choose(plan, held))
            # Where a step fails, none says how many were begun.
            self._lengths.forget()
            begin = time.monotonic()
            parts = self._manifest.micro_batches
            answer = self._call(
                name, first, bytearray(rates), *more, bytearray(fed), runs=len(steps) * parts
            )
            losses = self._losses(bytes(answer), len(steps))
            self._lengths.took(steps[-1][0].length)
            if self._host.spans is not None:
                lengths = [fed.length for fed, _ in steps for _ in range(parts)]
                self._host.note(self.plan.function, begin, len(lengths), lengths)
        return losses

    def _way(self, steps: Sequence[Ready]) -> tuple[str, list[bytearray]]:
        """The function that takes steps, and what it is given beside rates and batches."""
        first = steps[0][0]
        if self._manifest.shorter:
            lengths = np.array([fed.length for fed, _ in steps], np.int64)
            return "take_steps_at_lengths", [bytearray(lengths.tobytes())]
        if first.has_features:
            numbers = np.array([self._places[item] for item in self._fed_items(first)], np.int32)
            return _OVER_FEATURES, [bytearray(numbers.tobytes())]
        return "take_steps", []

    def _fed_items(self, fed: Fed) -> list[Argument]:
        """What a step is fed, in the order of the program's tensors."""
        return [item for item in self._places if item in fed.whole]

    def _losses(self, answer: bytes, count: int) -> list[float]:
        """The losses of all steps.

        Raises:
            NativeError: one failed.
        """
        with understood("the device", self._session.name):
            taken, code = _HEAD.unpack_from(answer)
            end = _HEAD.size + 8 * taken
            if code:
                raise NativeError(code, answer[end:].decode(errors="replace"))
            losses = np.frombuffer(answer, "<f8", count, _HEAD.size)
        return losses.tolist()

    def evaluate(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], instead: Instead
    ) -> np.ndarray:
        """An output of one micro-batch, or of as many samples as the evaluation is of."""
        output, ema = evaluation.output, int(bool(instead))
        with self._explained():
            self._lengths.use(self._lengths.of(arrays))
            if evaluation in self._usual:
                for item, array in arrays.items():
                    self._put(item, array)
                answer = bytes(self._call("evaluate", output.name, ema))
            else:
                assert evaluation.place
                samples = evaluation.place.count(output.shape)
                for item, array in arrays.items():
                    self._write_first(item, array, samples)
                answer = bytes(self._call("evaluate_samples", output.name, ema, samples))
        with understood("the device", self._session.name):
            return np.frombuffer(bytearray(answer), output.dtype).reshape(output.shape)

    def _put(self, item: Argument, array: np.ndarray) -> None:
        self._call("write_part", self._places[item], bytearray(array.tobytes()))

    def _run_part(self, name: str, ema: bool) -> np.ndarray:
        answer = bytearray(bytes(self._call("evaluate", name, int(ema))))
        outputs = {each.function: each.output for each in self._manifest.evaluations}
        cut = [each for each in self._manifest.features if each.of in outputs]
        over = {each.over: outputs[each.of] for each in cut}
        with understood("the device", self._session.name):
            if name not in over:
                return np.frombuffer(answer, np.uint8)
            return np.frombuffer(answer, over[name].dtype).reshape(over[name].shape)

    def _write_first(self, item: Argument, array: np.ndarray, samples: int) -> None:
        """Writes the first samples of an input, along its axis; the rest is not read."""
        # Of the length that the input has.
        whole = np.zeros(self._manifest.whole(item).spec.shape, item.spec.dtype)
        first = take(whole, item.place, slice(samples)) if item.place else whole
        first[...] = array
        self._call("write", self._places[item], 0, bytearray(whole.tobytes()))

    def read(self, items: Iterable[Argument]) -> dict[Argument, np.ndarray]:
        """Copies of tensors as they are now."""
        with self._explained():
            return {item: self._read(item) for item in items}

    def _read(self, item: Argument) -> np.ndarray:
        spec = item.spec
        answer = bytes(self._call("read", self._places[item], 0, spec.nbytes))
        with understood("the device", self._session.name):
            return np.frombuffer(bytearray(answer), spec.dtype).reshape(spec.shape)

    def write(self, values: Mapping[Argument, np.ndarray]) -> None:
        """Gives tensors other elements."""
        if self._over and any(item.role is Role.FROZEN for item in values):
            self._over.writes += 1
        with self._explained():
            for item, value in values.items():
                data = bytearray(np.ascontiguousarray(value, item.spec.dtype).tobytes())
                self._call("write", self._places[item], 0, data)

    def restart(self, steps: int) -> None:
        """Says that what was written is all that a step leaves behind, after so many steps."""
        with self._explained():
            self._call("set_steps", steps)

    def set_budget(self, budget: int) -> None:
        """Takes steps from now on by the fastest plan that fits; each length has but one."""
        plan = plan_within(self._manifest, budget)
        self._follower = None
        if not self._manifest.shorter:
            with self._explained():
                self._change_to(plan)

    def follow(self, available: Available, reserve: int) -> None:
        """Chooses the plan before each call."""
        bytes_left(available)
        if not self._manifest.shorter:
            self._follower = Follower(self._manifest.plans, available, reserve)

    def _change_to(self, plan: StepPlan) -> None:
        self._call("set_budget", self._manifest.budget_of(plan))

    @contextmanager
    def clocked(self) -> Iterator[dict[str, Any]]:
        """A block in which the runtime notes the time of each call."""
        found: dict[str, Any] = {}
        with self._explained():
            self._call("start_clock")
        try:
            yield found
        finally:
            with self._explained():
                calls = self._told("stop_clock")
            with understood("the device", self._session.name):
                found |= clocked_calls(
                    (kernel, begin / 1e9, end / 1e9) for kernel, begin, end in calls
                )

    def launches(self) -> Launches:
        """What kernels launch on a GPU; a server of before does not say it."""
        if self._session.kind == CPU or not has_function(self._session, _DESCRIBE):
            return {}
        with self._explained():
            return parse_launches(str(self._call(_DESCRIBE)), self._session.name)

    def close(self) -> None:
        """Gives all memory back."""
        with self._explained():
            self._call("close")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A block in which failures of the runtime there are odtc's."""
        try:
            yield
        except NativeError as error:
            raise explained(error, self._manifest, self._session) from error


def _opened(bundle: Bundle, session: RemoteSession, placement: Placement) -> ServedProgram:
    """The program of an artifact, at work on the device.

    Raises:
        NativeError: the runtime there cannot open it.
        ArtifactError: weights that the artifact leaves in files are not there, or are others.
        DeviceError: the device failed.
    """
    members = [
        uploaded(session, Path(bundle.root, member), member)
        for member in (PROGRAM, PARAMETERS, LIBRARY)
    ]
    options = members, placement.folder or "", placement.offloaded_from
    kept = kept_weights(session, bundle)
    try:
        return ServedProgram(session, *options, kept.folder)
    except NativeError as error:
        if not kept.is_found or error.code not in (Code.DAMAGED, Code.NO_FILE):
            raise
    return ServedProgram(session, *options, sent_again(session, bundle, kept).folder)


def has_function(session: RemoteSession, name: str) -> bool:
    """Whether the device's server has a function of programs."""
    with session.guard():
        try:
            session.function(f"odtc.program.{name}")
        except AttributeError:
            return False
    return True
