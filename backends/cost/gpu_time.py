"""The time of a kernel on a GPU, by a model: rooflines of families, and a cost of each launch.

Only what the kernel itself shows is asked: products say what they are; other kernels either share
memory in a group, as normalisations, sums and attention do, or compute each element for itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import BufferType

from odtc.backends.cost.measured_times import family_in
from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.tiling import turns_of
from odtc.core.ir.kernel_marks import ONE_OF, UNTOUCHED
from odtc.core.ir.matrix_calls import SUMS
from odtc.core.ir.product_marks import WORKLOAD
from odtc.passes.checkpoint.work import operations_in
from odtc.passes.ir.tensor_bytes import buffer_bytes
from odtc.passes.kernel.check_launches import Needs, counted_launches, groups_of, needs_of


@dataclass(frozen=True)
class Share:
    """The shares of a GPU's rates that kernels of a family reach.

    Attributes:
        arithmetic: of its operations a second, where all units have something to do.
        memory: of its bytes a second.
    """

    arithmetic: float
    memory: float


# Of an H100, through OpenCL and at batch 32, by `python -m benchmarks.gpu.modelled`. A phone's GPU
# may reach others: none was measured.
_OF_PRODUCTS = {
    "matmul": Share(0.87, 0.5),
    "convolution": Share(0.6, 0.5),
    "data-gradient": Share(0.63, 0.55),
    "weight-gradient": Share(0.53, 0.42),
    "grouped-weight-gradient": Share(0.6, 0.76),
}
# Of products in matrices of subgroups, of the rate in float32: ResNet-50 and BERT-base on an H200
# through Vulkan.
_IN_MATRICES = {
    "matmul": Share(2.3, 0.5),
    "convolution": Share(1.4, 0.5),
    "data-gradient": Share(0.95, 0.55),
    "weight-gradient": Share(1.2, 0.42),
}
_OF_GROUPED = Share(0.6, 1.0)
_TOGETHER, _APART = Share(0.6, 0.7), Share(0.6, 0.85)
# Sums that an item of a product holds, mostly.
_SUMS = 48


def gpu_time(kernel: tirx.PrimFunc, gpu: Gpu) -> float:
    """Seconds of a call of a kernel that is bound to threads and has no blocks."""
    launches, rates = list(counted_launches(kernel.body)), gpu.rates
    needs = [needs_of(launch) for launch, _ in launches]
    family = family_in(str(kernel.attrs.get(WORKLOAD, "")))
    share, sums = _share_of(kernel, family, needs), _SUMS if family else 0
    computing = sum(
        times * operations_in(launch) / _filled(groups_of(launch), need.items, sums, gpu)
        for (launch, times), need in zip(launches, needs, strict=True)
    )
    work = max(
        computing / (share.arithmetic * rates.arithmetic),
        _moved(kernel) / (share.memory * rates.memory),
    )
    count = sum(times for _, times in launches)
    return count * rates.launch + work / int(kernel.attrs.get(ONE_OF, 1))


def _share_of(kernel: tirx.PrimFunc, family: str, needs: Iterable[Needs]) -> Share:
    if family in _IN_MATRICES and any(each.scope() == SUMS for each in _allocated(kernel)):
        return _IN_MATRICES[family]
    if family:
        return _OF_PRODUCTS.get(family, _OF_GROUPED)
    return _TOGETHER if any(each.shared_bytes for each in needs) else _APART


def _filled(groups: int, items: int, sums: int, gpu: Gpu) -> float:
    """The share of the GPU's speed that the groups of a launch reach.

    Its units take them in turns, of which the last may leave some idle.
    """
    turns = turns_of(-(-groups // gpu.units), items, sums, gpu)
    return groups / gpu.units / turns if groups else 1.0


def _moved(kernel: tirx.PrimFunc) -> int:
    """Bytes of its tensors, and of those that one launch leaves to the next."""
    moved = sum(buffer_bytes(each) for each in kernel.params if isinstance(each.ty, BufferType))
    return moved - int(kernel.attrs.get(UNTOUCHED, 0)) + 2 * sum(map(buffer_bytes, _handed(kernel)))


def _handed(kernel: tirx.PrimFunc) -> Iterator[tirx.Buffer]:
    return (each for each in _allocated(kernel) if each.scope() in ("", "global"))


def _allocated(kernel: tirx.PrimFunc) -> Iterator[tirx.Buffer]:
    found: list[Any] = []
    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, found.append))
    return (each.buffer for each in found)
