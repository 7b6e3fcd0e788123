"""The description of a GPU that kernels are written for."""

from dataclasses import dataclass

from odtc.backends.decisions import MachineModel


@dataclass(frozen=True)
class Gpu(MachineModel):
    """A GPU, as far as kernels depend on it: the shapes that it prefers, and its limits.

    Attributes:
        group: work-items of the groups that kernels are cut into, a power of two.
        accumulators: that a work-item of a product keeps in registers, at most.
        groups: that keep the GPU busy; sums are cut into parts to have as many.
        split_bytes: of such parts, at most.
        offset_bits: in which it can count the elements of an arena.
        most_items: of a group, that it takes.
        local_bytes: memory that a group shares, at most.
        argument_bytes: of the arguments of a kernel, at most, through OpenCL.
        buffers: that a kernel is given, at most, through Vulkan; None where the device is asked.
        half: interfaces through which it computes with float16, as TVM calls their targets.
        multiplies_half: whether products do so, where that pays.
    """

    group: int = 256
    accumulators: int = 64
    groups: int = 128
    split_bytes: int = 4 << 20
    offset_bits: int = 32
    most_items: int = 256
    local_bytes: int = 16 << 10
    argument_bytes: int = 1024
    buffers: int | None = 16
    half: frozenset[str] = frozenset()
    multiplies_half: bool = False

    @property
    def multiplies(self) -> str:
        """The narrowest type that its products may multiply."""
        return "float16" if self.multiplies_half else "float32"


# Any GPU of a phone; and one that computes hundreds of groups at once, with memory for their sums:
# on an H100 half as many parts of sums were up to a quarter faster than 512 groups.
PHONE = Gpu()
LARGE = Gpu(groups=256, split_bytes=64 << 20, offset_bits=64, buffers=None)
