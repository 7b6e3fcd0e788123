"""What a kernel must know of a GPU."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Gpu:
    """A GPU, as far as kernels hang on it.

    Attributes:
        group: work-items of a group, a power of two.
        local_bytes: memory that a group shares.
        groups: that keep the GPU busy; sums are cut into parts to have as many.
        split_bytes: of such parts, at most.
        offset_bits: in which it can count the elements of an arena.
    """

    group: int = 256
    local_bytes: int = 16 << 10
    groups: int = 128
    split_bytes: int = 4 << 20
    offset_bits: int = 32


# A phone's GPU, and one that computes hundreds of groups at once and has memory for their sums.
PHONE = Gpu()
LARGE = Gpu(groups=512, split_bytes=64 << 20, offset_bits=64)

# By the target's name. NVIDIA's compiler for Vulkan (seen on an H100 in 2026) makes wrong code of
# divisions in indices of 64 bits, which lavapipe and its own compiler for OpenCL get right.
_GPUS = {"host-opencl": LARGE, "host-vulkan": replace(LARGE, offset_bits=32)}


def gpu_of(target: str) -> Gpu:
    """The description of a target's GPU, by the target's name."""
    return _GPUS.get(target, PHONE)
