"""What is read out of a kernel's SPIR-V before a driver gets it."""

import dataclasses
import re
from collections.abc import Sequence

import pytest

from odtc.backends.spirv.assemble import Shader
from odtc.backends.spirv.module import text
from tests.gpu.spirv.spirv_tools import check_valid
from tests.native.vulkan.device import DAMAGED, UNSUPPORTED, Device, GpuError
from tests.native.vulkan.kernels import (
    ADD,
    DOUBLE,
    DOUBLE_HALVES,
    SCALE,
    many_numbers,
    sharing,
)

NAME = 5


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


@pytest.mark.parametrize("shader", [SCALE, ADD, DOUBLE, DOUBLE_HALVES, many_numbers(3)])
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
        ADD.words[:-1],
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


def named(*name: int) -> Shader:
    """`ADD`, whose only name is of such words."""
    words, at = list(ADD.words), 5
    while words[at] & 0xFFFF != NAME:
        at += words[at] >> 16
    size = words[at] >> 16
    return changed(
        [*words[:at], (2 + len(name)) << 16 | NAME, words[at + 1], *name, *words[at + size :]]
    )


def test_which_buffers_are_read_only() -> None:
    with Device() as gpu:
        assert gpu.read_only(ADD) == {0}
        assert gpu.read_only(SCALE) == {0}
        assert gpu.read_only(many_numbers(3)) == set()


@pytest.mark.parametrize(
    "name",
    [text("read_onlys"), text("read_onl"), text("read_only")[:2], text("read_only")[:1], ()],
    ids=str,
)
def test_another_name_of_a_buffer_says_nothing(name: Sequence[int]) -> None:
    """Nor does one that is cut off."""
    with Device() as gpu:
        assert gpu.read_only(named(*text("read_only"))) == {0}
        assert gpu.read_only(named(*name)) == set()


def test_which_buffers_may_be_images() -> None:
    with Device() as gpu:
        assert gpu.images(DOUBLE) == gpu.images(DOUBLE_HALVES) == gpu.halves(DOUBLE_HALVES) == {0}
        assert gpu.halves(DOUBLE) == set()
        assert gpu.images(ADD) == set()


@pytest.mark.parametrize("binding", [0, 1, 4, 70, 1 << 31])
def test_an_image_of_no_buffer(binding: int) -> None:
    """Images are bound behind the buffers, one for each at most."""
    words = list(DOUBLE.words)
    (at,) = (
        n
        for n in range(5, len(words) - 3)
        if words[n] == 4 << 16 | 71 and words[n + 2 :][:2] == [33, 2]
    )
    words[at + 3] = binding
    assert refusal(dataclasses.replace(DOUBLE, words=tuple(words))).code == DAMAGED


@pytest.mark.parametrize("items", [(1 << 20, 1, 1), (1, 1, 1 << 20), (1 << 31, 1 << 31, 4)])
def test_a_work_group_that_is_too_large(items: tuple[int, int, int]) -> None:
    error = refusal(with_items(*items))
    assert "the kernel add has work-groups of {} x {} x {} items: ".format(*items) in str(error)
    assert error.code == UNSUPPORTED


def test_what_work_items_share() -> None:
    with Device() as gpu:
        gpu.load(ADD, sharing(100))
        assert gpu.shared_bytes(ADD) == 0
        assert gpu.shared_bytes(sharing(100)) == 400
        assert gpu.figures(1, sharing(100))["shared bytes"] == 400


def test_more_than_work_items_may_share() -> None:
    """A driver may do anything with such a kernel."""
    error = refusal(sharing(1 << 24))
    assert error.code == UNSUPPORTED
    said = r"the kernel sharing shares 67108864 bytes: .* allows \d+"
    assert re.fullmatch(said, str(error)), str(error)
