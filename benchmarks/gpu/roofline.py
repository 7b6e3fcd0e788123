"""Efficiency of each family of kernels against the GPU's roofline.

A call cannot take less than its operations at the rate of a large product, nor less than the bytes
of its tensors at the rate of a copy; the longer of the two is its bound. Both rates are measured in
the same run, by PyTorch. A family is compared with the sum of its calls' bounds. Each tensor of a
call is counted once, as if caches kept nothing from call to call, so a kernel that reads what the
one before it left in a cache may be faster than its bound.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from benchmarks.kernel_time.calls import KernelCall
from benchmarks.kernel_time.products import LayerProduct

# Words in the names of kernels that are no products; the first that fits.
_FAMILIES = {
    "attention": "attention",
    "normalisation": "norm",
    "pooling": "pool",
    "update": "update",
    "softmax and loss": "softmax|cross_entropy|tir_exp",
    "embedding": "take",
    "sums": "sum|mean",
    "copies": r"^(fused_)?(transpose|concatenate|reshape|strided_slice|spread|expand_dims|_|\d)+$",
}
_ELEMENTWISE = "elementwise"
_ATTENTION = re.compile(r"attention(_gradient)?\d*$")
_TRIES, _SIDE, _COPIED = 10, 8192, 1 << 28


@dataclass(frozen=True)
class GpuCeilings:
    """Measured peaks of the GPU.

    Attributes:
        product: operations a second, of a large product of PyTorch's: in float32 without TF32, or
            of float16, which tensor cores do.
        copy: bytes a second that a copy of a large tensor reads and writes.
    """

    product: float
    copy: float

    def text(self) -> str:
        """One line."""
        return (
            f"a product of {_SIDE} x {_SIDE} reaches {self.product / 1e12:.1f} TFLOP/s, "
            f"a copy {self.copy / 1e9:.0f} GB/s"
        )

    def bound(self, flops: int, moved: int) -> float:
        """Seconds that nothing with so many operations and bytes can be below."""
        return max(flops / self.product, moved / self.copy)


def measured_ceilings(precision: str) -> GpuCeilings:
    """Those of PyTorch's GPU, in `float32` or `mixed` precision: the best of several tries."""
    torch.backends.cuda.matmul.allow_tf32 = False
    dtype = torch.float32 if precision == "float32" else torch.float16
    a, b, c = (torch.rand(_SIDE, _SIDE, device="cuda", dtype=dtype) for _ in range(3))
    product = 2 * _SIDE**3 / _least_seconds(lambda: torch.mm(a, b, out=c))
    source = torch.rand(_COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    return GpuCeilings(product, 2 * _COPIED / _least_seconds(lambda: target.copy_(source)))


def _least_seconds(run: Callable[[], object]) -> float:
    run()
    found = []
    for _ in range(_TRIES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 1e3)
    return min(found)


@dataclass(frozen=True)
class KernelFamily:
    """All calls of a family in a step.

    Attributes:
        name: of it.
        calls: how many.
        seconds: that they took on the device.
        flops: of its products.
        bytes: of its tensors.
        bound: seconds that they could not be below.
    """

    name: str
    calls: int
    seconds: float
    flops: int
    bytes: int
    bound: float

    @property
    def lost(self) -> float:
        """Seconds beyond the bound."""
        return self.seconds - self.bound

    def text(self, total: float) -> str:
        """One line; `total`: seconds of all families."""
        rate = f"{self.flops / self.seconds / 1e12:5.1f} TFLOP/s, " if self.flops else " " * 15
        return (
            f"{self.seconds * 1e3:8.2f} ms {self.seconds / total:5.1%} {self.name:16s} "
            f"{self.calls:4d} calls, {rate}{self.bytes / self.seconds / 1e9:5.0f} GB/s, "
            f"{self.bound / self.seconds:4.0%} of its roofline, {self.lost * 1e3:.2f} ms beyond"
        )


def families_of(
    calls: Sequence[KernelCall], products: Sequence[LayerProduct | None], ceilings: GpuCeilings
) -> list[KernelFamily]:
    """The families of a step's calls, those that lose most first."""
    groups: dict[str, list[tuple[KernelCall, int]]] = {}
    for call, product in zip(calls, products, strict=True):
        name = product.kind if product else family_of(call.name)
        flops = product.flops if product else _attention_flops(call)
        groups.setdefault(name, []).append((call, flops))
    found = [_family(name, group, ceilings) for name, group in groups.items()]
    return sorted(found, key=lambda family: -family.lost)


def _attention_flops(call: KernelCall) -> int:
    """Of attention two products, and five of its gradient, in which scores are computed again.

    Queries and keys come first, and last a number for each query, `[batch, heads, queries]`.
    """
    if not (found := _ATTENTION.match(call.name)):
        return 0
    queries, keys, numbers = (math.prod(each) for each in (*call.shapes[:2], call.shapes[-1]))
    elements = queries // numbers
    heads = numbers // call.shapes[-1][-1]
    products = 5 if found[1] else 2
    return products * 2 * queries * (keys // (heads * elements))


def family_of(kernel: str) -> str:
    """The family of a kernel that is no product."""
    return next((f for f, words in _FAMILIES.items() if re.search(words, kernel)), _ELEMENTWISE)


def _family(
    name: str, group: Iterable[tuple[KernelCall, int]], ceilings: GpuCeilings
) -> KernelFamily:
    group = list(group)
    return KernelFamily(
        name,
        len(group),
        sum(call.seconds for call, _ in group),
        sum(flops for _, flops in group),
        sum(call.bytes for call, _ in group),
        sum(ceilings.bound(flops, call.bytes) for call, flops in group),
    )
