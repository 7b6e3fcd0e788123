"""Targets with a GPU: what their kernels are made for."""

import pytest

from odtc.backends.families import family_of
from odtc.backends.gpu.known import GPUS, known_gpu
from odtc.backends.gpu.machine import PHONE
from odtc.backends.gpu.tiling import ProductExtent, tiling_of
from odtc.backends.targets import gpu_of, parse_target


@pytest.mark.parametrize(
    ("gpu", "opencl", "vulkan"),
    [
        ("adreno-540", False, False),
        ("adreno-640", True, False),
        ("adreno-740", True, True),
        ("mali-g76", True, False),
        ("mali-g78", True, True),
        ("immortalis-g715", True, True),
    ],
)
def test_which_gpus_compute_in_float16(gpu: str, opencl: bool, vulkan: bool):
    """Whatever the CPU beside them does, and no GPU that is not named."""
    for kind, has in (("opencl", opencl), ("vulkan", vulkan)):
        assert parse_target(f"android-{kind}{{gpu={gpu}}}").has_half_arithmetic == has
        assert not parse_target(f"android-{kind}").has_half_arithmetic


def test_a_gpu_has_the_shapes_that_suit_the_interface():
    named, usual = "host-{}{{gpu=nvidia-h200}}", "host-{}"
    for kind in ("opencl", "vulkan"):
        ways = [gpu_of(parse_target(each.format(kind))) for each in (named, usual)]
        assert ways[0].tiles == ways[1].tiles
        assert ways[0].attention == ways[1].attention
        assert ways[0].offset_bits == ways[1].offset_bits
    assert gpu_of(parse_target(named.format("opencl"))).subgroup == 0
    assert gpu_of(parse_target(named.format("vulkan"))).subgroup > 0


@pytest.mark.parametrize("kind", ["opencl", "vulkan"])
@pytest.mark.parametrize("name", sorted(GPUS))
def test_kernels_in_the_shapes_of_a_gpu_are_within_its_limits(name: str, kind: str):
    gpu = known_gpu(name, kind)
    assert gpu.group <= gpu.most_items
    assert gpu.group & (gpu.group - 1) == 0
    # What is known of a GPU is never less than what is taken for granted of all.
    assert gpu.most_items >= PHONE.most_items
    assert gpu.local_bytes >= PHONE.local_bytes
    assert tiling_of(ProductExtent(8, 512, 512, 512), gpu).local_bytes <= gpu.local_bytes


@pytest.mark.parametrize(
    ("target", "buffers"),
    [
        ("host-vulkan", 32),
        ("android-vulkan", 16),
        ("android-vulkan{gpu=adreno-740}", 16),
        ("android-opencl", 64),
        ("host-opencl", 64),
    ],
)
def test_updates_share_a_launch_as_far_as_any_such_device_takes_them(target: str, buffers: int):
    assert family_of(parse_target(target).resolved()).update_buffers == buffers


def test_tvm_is_told_of_the_groups_of_a_gpu():
    told = [
        int(parse_target(f"android-opencl{of}").to_tvm().attrs["max_num_threads"])
        for of in ("", "{gpu=adreno-640}", "{gpu=mali-g76}")
    ]
    assert told == [256, 256, 64]
