"""Runs a training step several times in one call, so that no step waits for a client's link."""

import ctypes
import json
import math

import tvm

RUN_STEPS = "odtc.run_steps"


def run_steps(
    machine: tvm.runtime.Module, name: str, places: str, first: int, *tensors: tvm.runtime.Tensor
) -> str:
    """Runs a function once for each row of its stacks, from a first one on.

    Args:
        machine: the virtual machine.
        name: of its function, which returns a loss.
        places: of the arguments that differ from run to run, such as `0,5`.
        first: number of the first row.
        tensors: the arguments, and a stack for each place, in the CPU's memory: what is copied to
            that argument before each run, one row after the other.

    Returns:
        JSON: `losses` of the runs; `failure`, why there are no more of them, or null.
    """
    function, numbers = machine[name], [int(place) for place in places.split(",")]
    arguments, stacks = tensors[: -len(numbers)], tensors[-len(numbers) :]
    losses: list[float] = []
    failure = None
    try:
        for row in range(first, stacks[0].shape[0]):
            for number, stack in zip(numbers, stacks, strict=True):
                _copy_row(stack, row, arguments[number])
            losses.append(float(function(*arguments).numpy()))
    except Exception as error:
        # The client decides whether to go on from there: finished steps are not repeated.
        failure = str(error)
    return json.dumps({"losses": losses, "failure": failure})


def _copy_row(stack: tvm.runtime.Tensor, number: int, to: tvm.runtime.Tensor) -> None:
    """Copies as from memory: tensors that come over RPC are pointers, of which no view is made."""
    nbytes = math.prod(stack.shape[1:]) * stack.dtype.itemsize
    row = ctypes.c_void_p(stack.data_ptr() + number * nbytes)
    tvm.get_global_func("runtime.TVMTensorCopyFromBytes")(to, row, nbytes)
