"""The ranges of integers that a kernel stores hold whatever it does with them."""

from dataclasses import dataclass, field
from random import Random

import pytest
from tvm import ir, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.passes.checkpoint.stored_integers import StoredIntegers
from odtc.passes.checkpoint.work import operations

BUFFERS = 3
# Iterations that run of a loop.
MOST = 6


@dataclass
class Drawn:
    """A kernel that stores integers, and what it stores when it runs.

    Each expression is drawn together with a function that evaluates it.
    """

    draw: Random
    buffers: list[ir.Var] = field(
        default_factory=lambda: [tirx.decl_buffer((1,), "int32") for _ in range(BUFFERS)]
    )
    values: list[int] = field(default_factory=lambda: [0] * BUFFERS)
    seen: list[set[int]] = field(default_factory=lambda: [set() for _ in range(BUFFERS)])
    running: dict = field(default_factory=dict)

    def expression(self, names: list, depth: int = 0):
        kinds = ["number", "name", "element"]
        if depth < 3:
            kinds += ["+", "-", "min", "max", "select", "//"]
        kind = self.draw.choice(kinds)
        if kind == "name" and names:
            name = self.draw.choice(names)
            return name, lambda: self.running[name]
        if kind == "element":
            at = self.draw.randrange(BUFFERS)
            # A buffer has one element, whatever the index is.
            index = self.expression(names, depth + 1)[0] if depth < 2 else tirx.IntImm("int32", 0)
            return tirx.BufferLoad(self.buffers[at], [index]), lambda: self.values[at]
        if kind in ("number", "name"):
            number = self.draw.randint(-5, 20)
            return tirx.IntImm("int32", number), lambda: number
        (a, of_a), (b, of_b) = (self.expression(names, depth + 1) for _ in range(2))
        if kind == "//":
            return tirx.floordiv(a, tirx.IntImm("int32", 3)), lambda: of_a() // 3
        if kind == "select":
            return tirx.Select(a < b, b, a), lambda: of_b() if of_a() < of_b() else of_a()
        makes = {
            "+": (lambda: a + b, lambda: of_a() + of_b()),
            "-": (lambda: a - b, lambda: of_a() - of_b()),
            "min": (lambda: tirx.min(a, b), lambda: min(of_a(), of_b())),
            "max": (lambda: tirx.max(a, b), lambda: max(of_a(), of_b())),
        }
        made, run = makes[kind]
        return made(), run

    def store(self, names: list):
        at, (value, run_value) = self.draw.randrange(BUFFERS), self.expression(names)

        def run() -> None:
            self.values[at] = run_value()
            self.seen[at].add(self.values[at])

        return tirx.BufferStore(self.buffers[at], value, [0]), run

    def name(self, names: list):
        value, run_value = self.expression(names)
        name = tirx.Var("name", "int32")
        names.append(name)

        def run() -> None:
            self.running[name] = run_value()

        return tirx.Bind(name, value), run

    def statements(self, names: list, depth: int = 0):
        parts = []
        for _ in range(self.draw.randint(1, 4)):
            kind = self.draw.choice(["store", "store", "name", "loop"])
            if kind == "loop" and depth < 2:
                parts.append(self.loop(names, depth))
            else:
                parts.append(self.name(names) if kind == "name" else self.store(names))

        def run() -> None:
            for _, each in parts:
                each()

        return tirx.SeqStmt([each for each, _ in parts]) if len(parts) > 1 else parts[0][0], run

    def loop(self, names: list, depth: int):
        (low, run_low), (count, run_count) = self.expression(names), self.expression(names)
        # Often few enough to run to the end.
        if self.draw.random() < 0.5:
            few = self.draw.randint(1, MOST)
            count, run_count = tirx.IntImm("int32", few), lambda: few
        loop = tirx.Var("i", "int32")
        body, run_body = self.statements([*names, loop], depth + 1)

        def run() -> None:
            first = run_low()
            for each in range(first, first + min(run_count(), MOST)):
                self.running[loop] = each
                run_body()

        return tirx.For(loop, low, count, tirx.ForKind.SERIAL, body), run

    def kernel(self):
        begin = [tirx.AllocBuffer(each) for each in self.buffers]
        # Memory is written before it is read.
        begin += [tirx.BufferStore(each, tirx.IntImm("int32", 0), [0]) for each in self.buffers]
        body, run = self.statements([])
        return tirx.SeqStmt([*begin, body]), run


@pytest.mark.parametrize("seed", range(200))
def test_ranges_hold_what_is_stored(seed: int) -> None:
    drawn = Drawn(Random(seed))
    statement, run = drawn.kernel()
    run()
    ranges = StoredIntegers(statement)
    for buffer, seen in zip(drawn.buffers, drawn.seen, strict=True):
        bound = ranges.range_of(buffer)
        assert all(bound.min_value <= each <= bound.max_value for each in seen)


def test_a_range_that_a_mask_leaves_counts_as_the_longest_that_it_may_be() -> None:
    """As attention finds which keys are seen, and visits them in tiles."""

    @parsed.prim_func(private=True, s_tir=True)
    def kernel(seen: T.Buffer((128,), "float32"), y: T.Buffer((128,), "float32")):
        ends = T.alloc_buffer((2,), "int32")
        ends[0] = 128
        ends[1] = 0
        for n in range(128):
            ends[0] = T.Select(seen[n] > T.float32(0) and n < ends[0], n, ends[0])
            ends[1] = T.Select(seen[n] > T.float32(0), n + 1, ends[1])
        end = T.Bind(ends[1])
        begin = T.Bind(T.Select(ends[0] < end, ends[0], end))
        for tile in range((end + 5 - begin) // 6):
            for i in range(T.min(6, end - begin - tile * 6)):
                y[i] = y[i] + T.float32(1)

    assert operations(kernel) == 22 * 6


def test_a_loop_around_is_as_long_as_what_it_reads() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(mask: T.Buffer((4,), "float32"), y: T.Buffer((10,), "float32")):
        end = T.alloc_buffer((1,), "int32")
        end[0] = T.Select(mask[0] > T.float32(0), 3, 10)
        for i in range(end[0]):
            for j in range(i + 1):
                y[j] = y[j] + T.float32(1)

    assert operations(kernel) == 10 * 10


def test_a_length_that_is_stored_for_each_task_is_known() -> None:
    """As the gradient of an embedding keeps how many columns a task has."""

    @parsed.prim_func(private=True, s_tir=True)
    def kernel(y: T.Buffer((100,), "float32")):
        for chunk in range(4):
            first = T.alloc_buffer((1,), "int64")
            length = T.alloc_buffer((1,), "int64")
            first[0] = T.int64(32) * chunk
            length[0] = T.min(T.int64(32), 100 - first[0])
            for i in range(length[0]):
                y[first[0] + i] = y[first[0] + i] + T.float32(1)

    assert operations(kernel) == 4 * 32


def test_what_only_data_bounds_counts_once() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def of_data(count: T.Buffer((1,), "int32"), y: T.Buffer((10,), "float32")):
        for i in range((count[0] + 5) // 6):
            y[i] = y[i] + T.float32(1)

    @parsed.prim_func(private=True, s_tir=True)
    def of_data_that_changes(count: T.Buffer((1,), "int32"), y: T.Buffer((10,), "float32")):
        count[0] = T.Select(y[0] > T.float32(0), 3, count[0])
        for i in range(count[0]):
            y[i] = y[i] + T.float32(1)

    @parsed.prim_func(private=True, s_tir=True)
    def of_data_with_a_bound(count: T.Buffer((1,), "int32"), y: T.Buffer((10,), "float32")):
        for i in range(T.min(count[0] // 6, 7)):
            y[i] = y[i] + T.float32(1)

    assert [operations(each) for each in (of_data, of_data_that_changes)] == [1, 1]
    assert operations(of_data_with_a_bound) == 7


def test_what_a_count_bounds_counts_once() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(mask: T.Buffer((10,), "float32"), y: T.Buffer((10,), "float32")):
        count = T.alloc_buffer((1,), "int32")
        count[0] = 0
        for i in range(10):
            if mask[i] > T.float32(0):
                count[0] = count[0] + 1
        for i in range((count[0] + 5) // 6):
            y[i] = y[i] + T.float32(1)

    assert operations(kernel) == 1


def test_a_range_is_from_the_first_iteration_to_the_last() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(mask: T.Buffer((8,), "float32"), y: T.Buffer((20,), "float32")):
        place = T.alloc_buffer((1,), "int32")
        place[0] = 5
        for i in range(8):
            place[0] = T.Select(mask[i] > T.float32(0), i + 3, place[0])
        for i in range(place[0]):
            y[i] = y[i] + T.float32(1)
        for i in range(20 - place[0]):
            y[i] = y[i] + T.float32(1)

    assert operations(kernel) == (7 + 3) + (20 - 3)
