"""How long a call of a kernel takes on a target, by a model: a roofline of its CPU.

Only proportions matter to those who ask: which calls are cheap to run again.
"""

from collections.abc import Callable

from tvm import tirx
from tvm.tirx.buffer import BufferType

from odtc.backends.targets import Target
from odtc.core.kernel_marks import ONE_OF
from odtc.passes.checkpoint.problem import Storage
from odtc.passes.checkpoint.work import operations
from odtc.passes.tensor_bytes import buffer_bytes

# Of a core: operations that each element of a vector does in a second, and bytes from memory.
_PER_LANE = 8e9
_BYTES = 8e9
# What a call costs beside its work.
_CALL = 2e-6


def call_cost(target: Target) -> Callable[[tirx.PrimFunc], float]:
    """Seconds of a call of a kernel, which has no blocks, on one core of a target."""
    lanes = target.vector_bits // 32

    def seconds(kernel: tirx.PrimFunc) -> float:
        moved = sum(buffer_bytes(each) for each in kernel.params if isinstance(each.ty, BufferType))
        work = max(operations(kernel) / (lanes * _PER_LANE), moved / _BYTES)
        return _CALL + work / int(kernel.attrs.get(ONE_OF, 1))

    return seconds


def storage_cost(target: Target) -> Storage:
    """What copies to the target's storage and back take, in the unit of `call_cost`.

    Calls are shared by the target's threads, and a storage is not: in the time of one copy all of
    them could work.
    """
    threads = target.resolved().threads or 1
    return Storage(_CALL, threads / target.storage_write, threads / target.storage_read)
