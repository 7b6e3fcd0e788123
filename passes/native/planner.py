"""The walks through a step and what follows them, by the functions of `planner.cc`."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odtc.passes.checkpoint.choice import StageChoice
from odtc.passes.memory.operator_order import Tasks
from odtc.passes.native.library import library

Flags = NDArray[np.uint8]
# Asks what of all that is alive is worth keeping: the task that comes next, tensors that are alive,
# those of them that may not be dropped, the bytes of these, and the bytes that are left.
Look = Callable[[int, frozenset[int], frozenset[int], int, int], StageChoice | None]

_INTS = ctypes.POINTER(ctypes.c_int32)
_FLAGS = ctypes.POINTER(ctypes.c_uint8)


class _Lists(ctypes.Structure):
    _fields_ = (("starts", _INTS), ("items", _INTS))


class _Problem(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("tasks", "tensors", "has_storage")),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("times", ctypes.POINTER(ctypes.c_double)),
        *((name, _INTS) for name in ("makers", "last_made", "until", "last_run")),
        *((name, _Lists) for name in ("allocates", "reads", "followed", "uses", "made_before")),
    )


class Rules(ctypes.Structure):
    """How tensors are chosen that are dropped: a score's powers, and constants of `eviction.py`."""

    _fields_ = tuple(
        (name, ctypes.c_double)
        for name in ("cost", "size", "wait", "least", "most", "followed", "further")
    )


class Repairs(ctypes.Structure):
    """The constants `_DEPTH`, `_TRIED`, `_MOST` and `_STEEP` of `repair.py`."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("depth", "tried", "most")),
        ("steep", ctypes.c_double),
    )


class _Choice(ctypes.Structure):
    _fields_ = (
        ("task", ctypes.c_int32),
        *((name, _FLAGS) for name in ("kept", "fetched", "again", "unwanted")),
    )


_LOOK = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int32,
    _FLAGS,
    _FLAGS,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.POINTER(_Choice),
)


@dataclass(frozen=True)
class StepTables:
    """A step as `planner.cc` reads it; `Recomputation` says what each of these is."""

    tasks: Tasks
    has_storage: bool
    until: Sequence[int]
    times: Sequence[float]
    last_made: Sequence[int]
    last_run: Sequence[int]
    reads: Sequence[Sequence[int]]
    uses: Sequence[Sequence[int]]
    made_before: Sequence[Sequence[int]]


class Planner:
    """A step in the form that `planner.cc` reads.

    Args:
        step: its tables.
        functions: of `planner.cc`.
    """

    def __init__(self, step: StepTables, functions: ctypes.CDLL) -> None:
        self._functions = functions
        functions.odtc_peak.restype = ctypes.c_int64
        tasks, tensors = len(step.tasks.tasks), len(step.tasks.sizes)
        self._tasks, self._tensors = tasks, tensors
        # What the structure points to lives as long as it does.
        self._held: list[np.ndarray] = []
        makers = [step.tasks.makers[each] for each in range(tensors)]
        self._problem = _Problem(
            tasks,
            tensors,
            step.has_storage,
            self._array(step.tasks.sizes, np.int64, ctypes.c_int64),
            self._array(step.times, np.float64, ctypes.c_double),
            self._array(makers, np.int32, ctypes.c_int32),
            self._array(step.last_made, np.int32, ctypes.c_int32),
            self._array(step.until, np.int32, ctypes.c_int32),
            self._array(step.last_run, np.int32, ctypes.c_int32),
            self._lists(task.allocates for task in step.tasks.tasks),
            self._lists(step.reads),
            self._lists(task.reads for task in step.tasks.tasks),
            self._lists(step.uses),
            self._lists(step.made_before),
        )

    def evicting(
        self, limit: int, rules: Rules, choice: StageChoice | None, looks: int, look: Look
    ) -> list[int] | None:
        """Does what `eviction.py` does; `look` may be asked `looks` times."""
        given, held = _Choice(), []
        if choice is not None:
            held.append(self._fill(given, choice, frozenset()))
        failures: list[BaseException] = []

        def asked(now: int, alive: Any, fixed: Any, size: int, room: int, out: Any) -> int:
            try:
                there, pinned = self._set_of(alive), self._set_of(fixed)
                found = look(now, there, pinned, size, room)
                if found is None:
                    return 0
                held[:] = [self._fill(out[0], found, there - found.kept - pinned)]
            except BaseException as error:  # Ctrl-C, too
                # It would be lost in a function of C.
                failures.append(error)
                return -1
            return 1

        out = np.empty(int(rules.most + 1) * self._tasks + self._tensors, np.int32)
        length = self._functions.odtc_evicting(
            ctypes.byref(self._problem),
            ctypes.c_int64(limit),
            ctypes.byref(rules),
            None if choice is None else ctypes.byref(given),
            looks,
            _LOOK(asked),
            self._pointer(out, ctypes.c_int32),
        )
        if failures:
            raise failures[0]
        return None if length < 0 else out[:length].tolist()

    def retained(self, sequence: Sequence[int], limit: int) -> list[int]:
        """The sequence that `retention.py` leaves."""
        given = np.array(sequence, np.int32)
        out = np.empty(len(given), np.int32)
        length = self._functions.odtc_retained(
            ctypes.byref(self._problem),
            self._pointer(given, ctypes.c_int32),
            len(given),
            ctypes.c_int64(limit),
            self._pointer(out, ctypes.c_int32),
        )
        return out[:length].tolist()

    def repaired(self, limit: int, rules: Repairs, sequence: Sequence[int]) -> list[int] | None:
        """Does what `repair.py` does."""
        given, length = np.array(sequence, np.int32), 2 * len(sequence)
        while True:
            out = np.empty(length, np.int32)
            length = self._functions.odtc_repaired(
                ctypes.byref(self._problem),
                ctypes.c_int64(limit),
                ctypes.byref(rules),
                self._pointer(given, ctypes.c_int32),
                len(given),
                self._pointer(out, ctypes.c_int32),
                len(out),
            )
            if length <= len(out):
                return None if length < 0 else out[:length].tolist()

    def peak(self, sequence: Sequence[int]) -> int:
        """The most bytes that are alive at one time."""
        given = np.array(sequence, np.int32)
        where = ctypes.byref(self._problem), self._pointer(given, ctypes.c_int32)
        return self._functions.odtc_peak(*where, len(given))

    def _fill(self, into: _Choice, choice: StageChoice, unwanted: frozenset[int]) -> list[Flags]:
        """Writes a choice; returns what has to live as long as it is read."""
        into.task = choice.task
        flags = [
            self._flags(choice.kept, self._tensors),
            self._flags(choice.fetched, self._tensors),
            self._flags(choice.again, self._tasks),
            self._flags(unwanted, self._tensors),
        ]
        names = "kept", "fetched", "again", "unwanted"
        for name, each in zip(names, flags, strict=True):
            setattr(into, name, self._pointer(each, ctypes.c_uint8))
        return flags

    @staticmethod
    def _flags(those: frozenset[int], count: int) -> Flags:
        flags = np.zeros(count, np.uint8)
        flags[list(those)] = 1
        return flags

    def _set_of(self, flags: Any) -> frozenset[int]:
        there = np.ctypeslib.as_array(flags, (self._tensors,))
        return frozenset(np.flatnonzero(there).tolist())

    def _lists(self, lists: Iterable[Iterable[int]]) -> _Lists:
        every = [list(each) for each in lists]
        starts = [0, *accumulate(map(len, every))]
        items = list(chain.from_iterable(every)) or [0]
        return _Lists(*(self._array(each, np.int32, ctypes.c_int32) for each in (starts, items)))

    def _array(self, values: Sequence[float], dtype: type, kind: type) -> Any:
        made = np.array(values, dtype)
        self._held.append(made)
        return self._pointer(made, kind)

    @staticmethod
    def _pointer(values: np.ndarray, kind: type) -> Any:
        return values.ctypes.data_as(ctypes.POINTER(kind))


def planner_of(step: StepTables) -> Planner | None:
    """The step in that form, or None where there is no library."""
    functions = library()
    return None if functions is None else Planner(step, functions)
