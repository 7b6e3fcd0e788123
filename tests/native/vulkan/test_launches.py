"""Lists of launches through Vulkan: values, order, limits, times."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from tests.native.vulkan.device import DAMAGED, UNSUPPORTED, Device, GpuError, Launch
from tests.native.vulkan.kernels import ADD, GROUP, SCALE, many_numbers

COUNT = 4 * GROUP
BYTES = 4 * COUNT


def numbers(count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 1000, count).astype("int32")


def scale(of: int, to: int, n: int, at: int = 0, to_at: int = 0, groups: int = 4) -> Launch:
    """`to[to_at + i] = of[at + i] * n + 1`, with the bytes that it uses."""
    size = 4 * GROUP * groups
    ranges = ((4 * at, size), (4 * to_at, size))
    return Launch(0, (of, to), (n, at, to_at), (groups, 1, 1), ranges)


def test_a_list_runs_as_often_as_it_is_queued() -> None:
    given = numbers()
    with Device() as gpu:
        gpu.load(SCALE, ADD)
        first, second = gpu.buffer(given), gpu.buffer(np.zeros(COUNT, "int32"))
        made = gpu.prepare([scale(first, second, 3), Launch(1, (second, first), (0,), (4, 1, 1))])
        for _ in range(5):
            gpu.run(made)
            gpu.wait(made)
            given = given + given * 3 + 1
        np.testing.assert_array_equal(gpu.read(first, COUNT), given)


def test_launches_see_what_those_before_wrote() -> None:
    """In one buffer, at drawn places, some of which meet."""
    draw, size = np.random.default_rng(1), 16
    places = [draw.integers(0, size, 2) for _ in range(300)]
    places = [(int(a), int(b)) for a, b in places if a != b]
    expected = numbers(size * GROUP)
    with Device() as gpu:
        gpu.load(SCALE)
        arena = gpu.buffer(expected)
        launches = [scale(arena, arena, 3, a * GROUP, b * GROUP, 1) for a, b in places]
        made = gpu.prepare(launches)
        for _ in range(3):
            gpu.run(made)
            gpu.wait(made)
            for a, b in places:
                part = expected[a * GROUP : (a + 1) * GROUP]
                expected[b * GROUP : (b + 1) * GROUP] = part * np.int32(3) + np.int32(1)
        np.testing.assert_array_equal(gpu.read(arena, expected.size), expected)


def test_without_ranges_a_launch_may_use_all_of_a_buffer() -> None:
    with Device() as gpu:
        gpu.load(SCALE)
        buffers = [gpu.buffer(numbers()), *(gpu.allocate(BYTES) for _ in range(20))]
        pairs = pairwise(buffers)
        made = gpu.prepare([Launch(0, pair, (1, 0, 0), (4, 1, 1)) for pair in pairs])
        gpu.run(made)
        np.testing.assert_array_equal(gpu.read(buffers[-1], COUNT), numbers() + 20)


def test_what_is_queued_is_done_in_order() -> None:
    """What is put before a list is read by it, for more lists than are in flight at once."""
    with Device() as gpu:
        gpu.load(ADD)
        given, total = gpu.allocate(4 * GROUP), gpu.allocate(4 * GROUP)
        gpu.fill(given, 0, 4 * GROUP, 0)
        gpu.fill(total, 0, 4 * GROUP, 0)
        lists = [gpu.prepare([Launch(0, (given, total), (0,), (1, 1, 1))]) for _ in range(40)]
        taken = [np.zeros(2, "int32") for _ in lists]
        for number, made in enumerate(lists):
            gpu.put(given, np.array([number, 100 * number], "int32"), 4)
            gpu.run(made)
            gpu.take(total, taken[number], 4)
        gpu.wait()
    sums = np.cumsum(np.arange(40))
    np.testing.assert_array_equal(np.stack(taken), np.stack([sums, 100 * sums], 1))


def test_what_is_taken_is_there_after_the_wait_for_its_list_alone() -> None:
    with Device() as gpu:
        gpu.load(ADD)
        one, total = gpu.buffer(np.ones(GROUP, "int32")), gpu.allocate(4 * GROUP)
        gpu.fill(total, 0, 4 * GROUP, 0)
        lists = [gpu.prepare([Launch(0, (one, total), (0,), (1, 1, 1))]) for _ in range(3)]
        for made in lists:
            gpu.run(made)
        found = np.zeros(1, "int32")
        gpu.take(total, found)
        gpu.wait(lists[0])
        gpu.wait()
        assert found == 3


def test_writes_while_a_list_runs() -> None:
    """The next batch travels to another buffer than the one that is read."""
    with Device() as gpu:
        gpu.load(ADD)
        size = 1 << 20
        total = gpu.buffer(np.zeros(size, "int32"))
        sets = [gpu.buffer(np.full(size, 1, "int32")), gpu.allocate(4 * size)]
        lists = [gpu.prepare([Launch(0, (s, total), (0,), (size // GROUP, 1, 1))]) for s in sets]
        for number in range(20):
            gpu.run(lists[number % 2])
            gpu.write(sets[(number + 1) % 2], np.full(size, number + 2, "int32"))
            gpu.wait(lists[number % 2])
        np.testing.assert_array_equal(gpu.read(total, size), np.full(size, 210))


def test_another_thread_writes_meanwhile() -> None:
    """Each thread's part comes out as if it were alone."""
    with Device() as gpu, ThreadPoolExecutor(1) as other:
        gpu.load(ADD)
        size = 1 << 18
        one, total = gpu.buffer(np.ones(size, "int32")), gpu.buffer(np.zeros(size, "int32"))
        written = gpu.allocate(4 * size)
        made = gpu.prepare([Launch(0, (one, total), (0,), (size // GROUP, 1, 1))])
        writes = [
            other.submit(gpu.write, written, np.full(size, number, "int32"))
            for number in range(200)
        ]
        found = np.zeros(1, "int32")
        for number in range(200):
            gpu.run(made)
            gpu.take(total, found)
            gpu.wait(made)
            gpu.wait()
            assert found == number + 1
        for each in writes:
            each.result()
        np.testing.assert_array_equal(gpu.read(written, size), np.full(size, 199))


@pytest.mark.parametrize("count", [1, 16, 17, 40])
def test_many_numbers(count: int) -> None:
    """Beyond 16 they are a uniform buffer, of which each launch has its own part."""
    shader = many_numbers(count)
    assert shader.interface.is_uniform == (count > 16)
    with Device() as gpu:
        gpu.load(shader)
        buffers = [gpu.allocate(4 * count) for _ in range(30)]
        made = gpu.prepare(
            [
                Launch(0, (buffer,), [1000 * n + i for i in range(count)], (1, 1, 1))
                for n, buffer in enumerate(buffers)
            ]
        )
        gpu.run(made)
        for n, buffer in enumerate(buffers):
            np.testing.assert_array_equal(gpu.read(buffer, count), 1000 * n + np.arange(count))


def test_more_groups_than_a_launch_has() -> None:
    """Vulkan promises 65,535 along an axis; the first is launched in parts."""
    groups = 140_000
    with Device() as gpu:
        gpu.load(SCALE)
        buffer = gpu.buffer(np.arange(groups * GROUP, dtype="int32"))
        made = gpu.prepare([scale(buffer, buffer, 1, groups=groups)])
        gpu.run(made)
        gpu.wait(made)
        expected = np.arange(groups * GROUP) + 1
        np.testing.assert_array_equal(gpu.read(buffer, groups * GROUP), expected)


def test_times() -> None:
    """Launches that depend on each other follow each other, also where a list is recorded anew."""
    with Device() as gpu:
        gpu.load(SCALE)
        buffer = gpu.buffer(numbers())
        made = gpu.prepare([scale(buffer, buffer, 1) for _ in range(50)])
        for is_timed in (False, True, True, False):
            gpu.set_timed(is_timed)
            gpu.run(made)
            gpu.wait(made)
            if not is_timed:
                with pytest.raises(GpuError, match="were not timed") as error:
                    gpu.times(made, 50)
                assert error.value.code == UNSUPPORTED
                continue
            times = gpu.times(made, 50)
            assert all(begin <= end for begin, end in times)
            assert sorted(times) == times
            assert all(end <= begin for (_, end), (begin, _) in pairwise(times))
        np.testing.assert_array_equal(gpu.read(buffer, COUNT), numbers() + 200)


def test_groups_beyond_the_limit() -> None:
    with Device() as gpu:
        gpu.load(SCALE)
        buffer = gpu.allocate(BYTES)
        with pytest.raises(
            GpuError, match="scale has 4000000000 work-groups along axis 2"
        ) as error:
            gpu.prepare([Launch(0, (buffer, buffer), (1, 0, 0), (1, 1, 4_000_000_000))])
        assert error.value.code == UNSUPPORTED


def test_a_kernel_that_is_not_there() -> None:
    with Device() as gpu:
        gpu.load(SCALE)
        gpu._items.append((1, 1, 1))
        with pytest.raises(GpuError, match="a launch is of kernel 1: there are 1") as error:
            gpu.prepare([Launch(1, (), (), (1, 1, 1))])
        assert error.value.code == DAMAGED
