"""The GPUs that odtc knows, by the names that a target's option `gpu` takes.

Limits are as published for the GPU or its family; docs/phones.md says where. Limits that
are not published are those of `PHONE`, which every driver reported so far supports:

- 256 items of a group and 16 KiB of shared memory, which WebGPU requires of every phone;
- 16 buffers of a kernel, as all Vulkan drivers have that have the 8 that WebGPU requires;
- 1,024 bytes of arguments, which OpenCL's full profile guarantees;
- float16 is only held in memory.
"""

from collections.abc import Iterable
from dataclasses import replace

from odtc.backends.cost.gpu_rates import MEASURED
from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.tile_speeds import (
    ATTENTION_OF_VULKAN,
    OF_H200_MATRICES,
    OF_H200_VULKAN,
)

_SHARED = 32 << 10
_BY_OPENCL, _BY_BOTH = frozenset({"opencl"}), frozenset({"opencl", "vulkan"})

# Qualcomm's guide to OpenCL: of all reads, those of images alone go through the first-level cache.
_ADRENO = replace(PHONE, images=True)
# One was reported to support 512 items through Vulkan, most were not.
_ADRENO_5 = replace(_ADRENO, local_bytes=_SHARED)
_ADRENO_6 = replace(_ADRENO, most_items=1024, local_bytes=_SHARED, half=_BY_OPENCL)
_ADRENO_7 = replace(_ADRENO_6, half=_BY_BOTH)
# Their drivers have 16 KiB, all of the 610's and some of the 612's.
_ADRENO_SMALL = replace(_ADRENO_6, local_bytes=PHONE.local_bytes)
# Arm advises against groups of more than 64 items, which cannot be split where they share memory,
# and says that an item has 64 registers: a tile of 8 x 8 sums would fill them. As many items as
# elsewhere are more groups.
_MALI = replace(
    PHONE,
    group=64,
    accumulators=16,
    attention_sums=32,
    groups=512,
    local_bytes=_SHARED,
    half=_BY_OPENCL,
)
# Of the newest nobody has published how much a group may share.
_MALI_NEW = replace(_MALI, local_bytes=PHONE.local_bytes)
_FIFTH = replace(_MALI, half=_BY_BOTH)
_BIFROST_384 = replace(_MALI, most_items=384)
_VALHALL = replace(_MALI, most_items=512, half=_BY_BOTH)
_XCLIPSE = replace(PHONE, local_bytes=_SHARED)
_XCLIPSE_960 = replace(PHONE, local_bytes=2 * _SHARED)


def _each(family: str, names: str, gpu: Gpu) -> Iterable[tuple[str, Gpu]]:
    for each in names.split():
        name = f"{family}-{each}"
        yield name, replace(gpu, rates=MEASURED.get(name, gpu.rates))


# NVIDIA's compiler for Vulkan (seen on an H100 in 2026) makes wrong code of divisions in indices of
# 64 bits, which lavapipe and its own compiler for OpenCL get right.
_LARGE_BY_VULKAN = replace(
    LARGE, offset_bits=32, tiles=OF_H200_VULKAN, attention=ATTENTION_OF_VULKAN
)
_H200 = replace(
    _LARGE_BY_VULKAN,
    half=frozenset({"vulkan"}),
    local_bytes=48 << 10,
    subgroup=32,
    matrix_tiles=OF_H200_MATRICES,
)

GPUS: dict[str, Gpu] = dict(
    (
        *_each("adreno", "504 505 506 508 509 510 512 530 540", _ADRENO_5),
        *_each("adreno", "610 612", _ADRENO_SMALL),
        *_each("adreno", "615 616 618 619 620 630 640 642l 643 650 660", _ADRENO_6),
        *_each("adreno", "710 720 725 730 735 740 750", _ADRENO_7),
        *_each("adreno", "810 830 840", _ADRENO_6),
        *_each("mali", "g31 g51 g72 g76", _MALI),
        *_each("mali", "g52 g71", _BIFROST_384),
        *_each("mali", "g57 g77 g78 g310 g510 g615 g710 g715", _VALHALL),
        *_each("mali", "g68 g610 g620", _MALI),
        *_each("mali", "g720", _FIFTH),
        *_each("mali", "g625 g725", _MALI_NEW),
        *_each("immortalis", "g715", _VALHALL),
        *_each("immortalis", "g720", _FIFTH),
        *_each("immortalis", "g925", _MALI_NEW),
        *_each("xclipse", "530 540 550 920 930a 940 950", _XCLIPSE),
        *_each("xclipse", "960", _XCLIPSE_960),
        *_each("nvidia", "h100 h200", _H200),
        *_each("powervr", "bxm-8-256 bxt-32-1024", PHONE),
    )
)

# Those that take other shapes through OpenCL.
_H200_BY_OPENCL = replace(LARGE, local_bytes=_H200.local_bytes)
_BY_OPENCL_ALONE = {"nvidia-h100": _H200_BY_OPENCL, "nvidia-h200": _H200_BY_OPENCL}

# Whatever device is there. Shaders of NVIDIA's compiler and of lavapipe may have float16, but
# products that round to it, and multiply by items, took 1.3 times as long on an H200.
OF_HOSTS = {"host-opencl": LARGE, "host-vulkan": _LARGE_BY_VULKAN}


def known_gpu(name: str, interface: str) -> Gpu:
    """A GPU by its name, as an interface shows it.

    Args:
        name: of `GPUS`.
        interface: by TVM's name of its targets.
    """
    return _BY_OPENCL_ALONE.get(name, GPUS[name]) if interface == "opencl" else GPUS[name]
