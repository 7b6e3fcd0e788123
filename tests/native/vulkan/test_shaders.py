"""What is read out of a kernel's SPIR-V before a driver gets it."""

import dataclasses

import pytest

from odtc.backends.spirv.assemble import Shader
from tests.gpu.spirv.spirv_tools import check_valid
from tests.native.vulkan.device import DAMAGED, UNSUPPORTED, Device, GpuError
from tests.native.vulkan.kernels import ADD, SCALE, many_numbers


def changed(words: list[int] | tuple[int, ...], **fields: object) -> Shader:
    return dataclasses.replace(ADD, words=tuple(words), **fields)


def with_capability(number: int) -> Shader:
    return changed([*ADD.words[:5], 2 << 16 | 17, number, *ADD.words[5:]])


def with_items(*items: int) -> Shader:
    words, at = list(ADD.words), 5
    while words[at] & 0xFFFF != 16:
        at += words[at] >> 16
    words[at + 3 : at + 6] = items
    return changed(words)


def refusal(shader: Shader) -> GpuError:
    with Device() as gpu, pytest.raises(GpuError) as error:
        gpu.load_as(shader)
    return error.value


@pytest.mark.parametrize("shader", [SCALE, ADD, many_numbers(3)])
def test_kernels_of_the_tests_are_valid(shader: Shader) -> None:
    check_valid(shader)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ADD.words[:5],
        (1, *ADD.words[1:]),
        ADD.words[:8],
        (*ADD.words, 0),
        (*ADD.words, 9 << 16),
    ],
)
def test_damaged_words(words: tuple[int, ...]) -> None:
    broken = changed(words)
    text = "the SPIR-V of the kernel add is damaged"
    with Device() as gpu, pytest.raises(GpuError, match=text) as error:
        gpu.load_as(broken)
    assert error.value.code == DAMAGED


def test_another_name() -> None:
    assert refusal(changed(ADD.words, name="addition")).code == DAMAGED


def test_what_nobody_knows() -> None:
    error = refusal(with_capability(5313))
    assert "needs the capability 5313 of SPIR-V" in str(error)
    assert error.code == UNSUPPORTED


def test_what_the_device_has() -> None:
    with Device() as gpu:
        gpu.load(with_capability(11))


@pytest.mark.parametrize("items", [(1 << 20, 1, 1), (1, 1, 1 << 20), (1 << 31, 1 << 31, 4)])
def test_a_work_group_that_is_too_large(items: tuple[int, int, int]) -> None:
    error = refusal(with_items(*items))
    assert "the kernel add has work-groups of {} x {} x {} items: ".format(*items) in str(error)
    assert error.code == UNSUPPORTED
