"""The time of a kernel's call on a target: measured where it was, else by a model.

The model is a roofline of the target's CPU, or of its GPU (`gpu_time.py`). Only proportions matter
to those who ask: which calls are cheap to run again.
"""

from collections.abc import Callable
from functools import partial

from tvm import tirx
from tvm.tirx.buffer import BufferType

from odtc.backends.cost.gpu_time import gpu_time
from odtc.backends.cost.measured_times import NOTHING, MeasuredTimes
from odtc.backends.targets import CPU, Target, gpu_of
from odtc.core.ir.kernel_marks import ONE_OF, UNTOUCHED
from odtc.core.ir.product_marks import TUNED, WORKLOAD
from odtc.passes.checkpoint.call_time import CallTime, Cost
from odtc.passes.checkpoint.problem import Storage
from odtc.passes.checkpoint.work import operations
from odtc.passes.ir.tensor_bytes import buffer_bytes

# Of a core: operations that each element of a vector does in a second, and bytes from memory.
_PER_LANE = 8e9
_BYTES = 8e9
# Overhead of a call.
_CALL = 2e-6
# Of an element of a batch normalisation's result: operations to compute it, with an activation of
# two bounds, and bytes that move where it is written, as its cache line is read before.
_NORMAL_OPERATIONS, _NORMAL_BYTES = 6, 8


def call_cost(target: Target, times: MeasuredTimes = NOTHING) -> Cost:
    """Returns a function that gives the time of a call of a kernel without blocks.

    Args:
        target: the target; of a CPU times are those of one core.
        times: of calls that were measured on it.
    """
    modelled = _on_cpu(target) if target.kind == CPU else partial(gpu_time, gpu=gpu_of(target))

    def cost(kernel: tirx.PrimFunc) -> CallTime:
        workload = str(kernel.attrs.get(WORKLOAD, ""))
        seconds = times.seconds(workload, is_tuned=TUNED in kernel.attrs)
        if seconds is not None:
            return CallTime(seconds, is_measured=True)
        return CallTime(times.factor_of(workload) * modelled(kernel))

    return cost


def _on_cpu(target: Target) -> Callable[[tirx.PrimFunc], float]:
    lanes = target.vector_bits // 32

    def modelled(kernel: tirx.PrimFunc) -> float:
        moved = sum(buffer_bytes(each) for each in kernel.params if isinstance(each.ty, BufferType))
        moved -= int(kernel.attrs.get(UNTOUCHED, 0))
        work = max(operations(kernel) / (lanes * _PER_LANE), moved / _BYTES)
        return _CALL + work / int(kernel.attrs.get(ONE_OF, 1))

    return modelled


def worth_copies(target: Target) -> int:
    """Number of times a core can normalise an element in the time of writing it to memory."""
    lanes = target.vector_bits // 32
    return int(_NORMAL_BYTES / _BYTES * lanes * _PER_LANE / _NORMAL_OPERATIONS)


def storage_cost(target: Target) -> Storage:
    """Returns the times of copies to the target's storage and back, in the unit of `call_cost`.

    Calls are shared by the target's threads, and a storage is not: in the time of one copy all of
    them could work.
    """
    threads = target.resolved().threads or 1
    return Storage(_CALL, threads / target.storage_write, threads / target.storage_read)
