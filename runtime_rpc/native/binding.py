"""The native runtime through ctypes: `odtc.h`, with arrays of numpy that are its own memory."""

import ctypes as c
import itertools
import math
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from odtc.core.ir.marked_loss import marked
from odtc.runtime_rpc.native.interface import (
    DTYPES,
    ROLES,
    Code,
    Handle,
    NativeError,
    Options,
    Tensor,
    TimedCall,
    loaded_runtime,
)

# Of an artifact, in the order of `Options`.
_MEMBERS = ("program.bin", "parameters.safetensors", "step.so")


class NativeTrainer:
    """A training step at work in the native runtime.

    Attributes:
        tensors: the arguments of the step by role and name, as arrays that are the trainer's
            memory; inputs and labels are fed by writing to theirs.
        library: the runtime that it is of.

    Args:
        folder: with the members of an artifact; or the paths of its program, weights and library.
        threads: worker threads; 0 for one for each core.
        storage: a folder for files in place of memory.
        library: the runtime; the one that is built here if None.
        offload_state: bytes from which on optimizer state lies in such files; 0 for none.
        check_weights: whether weights are compared with the hashes that there are of them.
        beside: the folder with weights that the artifact leaves in a file; that of its own if None.

    Raises:
        NativeError: a file cannot be read, or does not fit.
        BuildError: the runtime cannot be built.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | Sequence[Path],
        threads: int = 0,
        storage: str | os.PathLike[str] | None = None,
        library: c.CDLL | None = None,
        offload_state: int = 0,
        *,
        check_weights: bool = True,
        beside: str | os.PathLike[str] | None = None,
    ) -> None:
        self.library, self._opened = library or loaded_runtime(), Handle()
        members = (
            folder
            if isinstance(folder, Sequence) and not isinstance(folder, str)
            else [Path(folder, name) for name in _MEMBERS]
        )
        paths = [os.fsencode(path) for path in members]
        kept = None if storage is None else os.fsencode(storage)
        options = Options(*paths, kept, threads, None, None, offload_state, not check_weights)
        options.beside = None if beside is None else os.fsencode(beside)
        code = self.library.odtc_open(c.byref(options), c.byref(self._opened))
        # Dropped without a word, its threads and memory go all the same.
        self._end = weakref.finalize(self, self.library.odtc_close, self._opened)
        self._end.atexit = False  # a process that ends has nothing to wait for
        try:
            self.check(code)
        except NativeError:
            self.close()
            raise
        self.tensors = dict(self._arguments())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back its memory; no array of it may be used any more."""
        self.tensors = {}
        self._end()
        self._opened = Handle()

    @property
    def handle(self) -> Handle:
        """The handle of the trainer in C.

        Raises:
            NativeError: it is closed.
        """
        if not self._opened:
            raise NativeError(Code.USAGE, "the trainer is closed")
        return self._opened

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return self.library.odtc_steps(self.handle)

    @steps.setter
    def steps(self, steps: int) -> None:
        # Of weights and state that were written to `tensors`.
        self.check(self.library.odtc_set_steps(self.handle, steps))

    @property
    def arena_bytes(self) -> int:
        """Of the plan that steps are taken by."""
        return self.library.odtc_arena_bytes(self.handle)

    @property
    def held_bytes(self) -> int:
        """Of it that are allocated."""
        return self.library.odtc_held_bytes(self.handle)

    def step(self, lr: float) -> float:
        """Takes a step with what was fed, and returns its loss.

        Raises:
            NativeError: something is out of its bounds, or the step failed.
        """
        code, loss = self._step(lr)
        self.check(code)
        return loss

    def step_at_any_loss(self, lr: float, *, over_features: bool = False) -> float:
        """The same where a loss that is not finite, or marked, is for the caller to judge.

        Args:
            lr: the learning rate.
            over_features: whether features were fed in place of inputs.

        Raises:
            NativeError: something is out of its bounds, or the step failed.
        """
        code, loss = self._step(lr, over_features=over_features)
        if code != Code.NOT_FINITE:
            self.check(code)
        # The runtime has taken the mark off.
        return marked(loss) if code and math.isfinite(loss) else loss

    def _step(self, lr: float, *, over_features: bool = False) -> tuple[int, float]:
        loss, library = c.c_double(), self.library
        take = library.odtc_step_over_features if over_features else library.odtc_step
        return take(self.handle, lr, c.byref(loss)), loss.value

    def evaluate(self, output: str | None = None, *, ema: bool = False) -> np.ndarray:
        """An output of what was fed, in inference mode.

        Raises:
            NativeError: there is no such output, or no average.
        """
        result, name = Tensor(), None if output is None else output.encode()
        self.check(self.library.odtc_evaluate(self.handle, name, ema, c.byref(result)))
        return _array(result).copy()

    def evaluate_samples(
        self, samples: int, output: str | None = None, *, ema: bool = False
    ) -> np.ndarray:
        """An output of the first samples of what was fed.

        Raises:
            NativeError: as of `evaluate`; there are fewer samples in a step, or they are not apart.
        """
        result, name = Tensor(), None if output is None else output.encode()
        evaluate = self.library.odtc_evaluate_samples
        self.check(evaluate(self.handle, name, ema, samples, c.byref(result)))
        return _array(result).copy()

    @property
    def samples(self) -> int:
        """Of a step."""
        return self.library.odtc_samples_of_step(self.handle)

    def evaluate_part(self, output: str | None = None, *, ema: bool = False) -> np.ndarray:
        """An output of one micro-batch, whose inputs lie where `part` says.

        Raises:
            NativeError: there is no such output, or no average.
        """
        result, name = Tensor(), None if output is None else output.encode()
        self.check(self.library.odtc_evaluate_part(self.handle, name, ema, c.byref(result)))
        return _array(result).copy()

    def part(self, number: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Where a micro-batch is read of an argument, which has a shape and dtype of its own."""
        at = self.library.odtc_part_at(self.handle, number)
        return _memory(at, math.prod(shape) * np.dtype(dtype).itemsize, shape, np.dtype(dtype))

    @property
    def lengths(self) -> tuple[int, ...]:
        """At which steps can be taken, the longest first; none where the step has one size."""
        lengths = (self.library.odtc_length_at(self.handle, n) for n in itertools.count())
        return tuple(itertools.takewhile(bool, lengths))

    def set_length(self, length: int) -> None:
        """Takes steps and evaluations from now on at one of these.

        `tensors` and `part` have the shapes of the longest all the same: what a shorter one takes
        lies at the beginning of their memory.

        Raises:
            NativeError: the step is not compiled for it.
        """
        self.check(self.library.odtc_set_length(self.handle, length))

    def set_budget(self, nbytes: int) -> None:
        """Takes steps from now on by the fastest plan that fits.

        Raises:
            NativeError: none does.
        """
        self.check(self.library.odtc_set_budget(self.handle, nbytes))

    def use_threads(self, threads: int) -> None:
        """Takes steps from now on with so many threads.

        Raises:
            NativeError: the kernels are not made for as many.
        """
        self.check(self.library.odtc_set_threads(self.handle, threads))

    def use_cores(self, cores: Sequence[int]) -> None:
        """Takes steps from now on with a thread on each core, but for the first: the caller's.

        Raises:
            NativeError: there is no such core, or the kernels are not made for as many threads.
        """
        numbers = (c.c_int * len(cores))(*cores)
        self.check(self.library.odtc_set_cores(self.handle, numbers, len(cores)))

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Writes weights, state and the number of steps, as `Trainer.save_checkpoint` does.

        Raises:
            NativeError: the file cannot be written, or what is trained is not finite.
        """
        self.check(self.library.odtc_save(self.handle, os.fsencode(path)))

    def save_adapter(self, path: str | os.PathLike[str]) -> None:
        """Writes the same without frozen weights, as `Trainer.save_adapter` does.

        Raises:
            NativeError: the file cannot be written, or what is trained is not finite.
        """
        self.check(self.library.odtc_save_adapter(self.handle, os.fsencode(path)))

    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Takes them up again.

        Raises:
            NativeError: the file is damaged, or of another step; nothing is changed.
        """
        self.check(self.library.odtc_load(self.handle, os.fsencode(path)))

    def checkpoint(self) -> bytes:
        """The bytes of such a file.

        Raises:
            NativeError: what is trained is not finite, or there is no memory.
        """
        data, count = c.c_void_p(), c.c_size_t()
        self.check(self.library.odtc_save_bytes(self.handle, c.byref(data), c.byref(count)))
        try:
            return c.string_at(data.value or 0, count.value)
        finally:
            _free(data)

    def load_bytes(self, checkpoint: bytes) -> None:
        """Takes them up again.

        Raises:
            NativeError: they are damaged, or of another step; nothing is changed.
        """
        self.check(self.library.odtc_load_bytes(self.handle, checkpoint, len(checkpoint)))

    def cancel(self, *, now: bool = False) -> None:
        """Lets the step that runs, or the next one, end with an error."""
        self.library.odtc_cancel(self.handle, now)

    def start_clock(self) -> None:
        """Takes the time of each call of a kernel from now on."""
        self.check(self.library.odtc_start_clock(self.handle))

    def stop_clock(self) -> list[tuple[str, float, float]]:
        """Ends it: the kernel of each call, when it began and ended, as `time.monotonic` says it.

        Raises:
            NativeError: there was no memory for all of them.
        """
        calls, count = c.POINTER(TimedCall)(), c.c_size_t()
        self.check(self.library.odtc_stop_clock(self.handle, c.byref(calls), c.byref(count)))
        return [
            (each.kernel.decode(), each.begin / 1e9, each.end / 1e9)
            for each in calls[: count.value]
        ]

    def fact(self, name: str) -> str | None:
        """A fact that the program states about itself."""
        found = self.library.odtc_fact(self.handle, name.encode())
        return None if found is None else found.decode()

    def _arguments(self) -> Any:
        number = 0
        while found := self.library.odtc_tensor_at(self.handle, number):
            yield (ROLES[found[0].role], found[0].name.decode()), _array(found[0])
            number += 1

    def check(self, code: int) -> None:
        """Raises what a function that was called with the handle returned.

        Raises:
            NativeError: it did not do what it was asked for.
        """
        if code:
            # Names are cut to so many bytes, and a path may be of any bytes.
            message = self.library.odtc_message(self.handle).decode(errors="replace")
            raise NativeError(code, message)


def _free(data: c.c_void_p) -> None:
    # Found now: a host of phones may have no list of all symbols, as Windows.
    free = c.CDLL(None).free
    free.argtypes, free.restype = [c.c_void_p], None
    free(data)


def _array(tensor: Tensor) -> np.ndarray:
    """The memory of a tensor."""
    dtype = np.dtype(DTYPES[tensor.code, tensor.bits])
    return _memory(tensor.data, tensor.nbytes, tuple(tensor.shape[: tensor.rank]), dtype)


def _memory(at: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if not nbytes:
        return np.empty(shape, dtype)
    memory: Any = (c.c_uint8 * nbytes).from_address(at)
    return np.frombuffer(memory, dtype).reshape(shape)
