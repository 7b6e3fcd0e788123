"""The table of kernels: every product of a step is found, and nothing else is taken for one."""

import json
from collections import Counter

import pytest

from benchmarks.ceilings import Ceilings
from benchmarks.kernel_time.__main__ import clocked_steps
from benchmarks.kernel_time.calls import KernelCall
from benchmarks.kernel_time.clock import medians
from benchmarks.kernel_time.layers import layers_of
from benchmarks.kernel_time.products import (
    DATA,
    FORWARD,
    WEIGHT,
    ProductLayer,
    products_of,
)
from benchmarks.kernel_time.report import (
    OTHER,
    other_table,
    product_table,
    rows_of,
    sums,
)
from benchmarks.output import write_json
from benchmarks.step_time.cases import case_of
from odtc.comparison.measures.workload import training_work

CEILINGS = Ceilings(threads=1, fma=4e9, gemm=2e9, numpy_gemm=1e9, copy=1e9)


def call(name, *shapes, seconds=1.0):
    return KernelCall(name, shapes, 100, seconds)


@pytest.fixture(scope="module")
def lenet():
    case = case_of("lenet", 4)
    steps, seconds = clocked_steps(case, 2)
    return case, steps, seconds


def test_every_product_of_a_step_is_found(lenet):
    case, steps, seconds = lenet
    calls = medians(steps)
    layers = layers_of(case.model, case.batch)
    products = products_of(calls, layers)
    kinds = Counter(product.kind for product in products if product)
    # Two convolutions and three matrix products; the image needs no gradient.
    assert kinds == {FORWARD: 5, DATA: 4, WEIGHT: 5}
    first = next(layer for layer in layers if layer.names == ("conv1.weight",))
    flops = sum(product.flops for product in products if product)
    assert flops == training_work(case.model, case.batch).flops - first.flops
    assert len(seconds) == len(steps) == 2
    assert all(each.seconds > 0 and each.bytes > 0 for each in calls)


def test_a_step_is_told_as_tables(lenet, tmp_path):
    case, steps, _ = lenet
    calls = medians(steps)
    rows = rows_of(calls, products_of(calls, layers_of(case.model, case.batch)))
    total = sum(row.seconds for row in rows)
    products, others = (table(rows, CEILINGS, total) for table in (product_table, other_table))
    assert products.row_count + others.row_count == len(rows)
    assert sum(row.calls for row in rows) == len(calls)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    assert [line.split(":")[0] for line in sums(rows, CEILINGS)] == [FORWARD, DATA, WEIGHT, OTHER]
    write_json({"model": "lenet"}, "kernels", rows, tmp_path / "new" / "x.json")
    assert len(json.loads((tmp_path / "new" / "x.json").read_text())["kernels"]) == len(rows)


def test_medians_are_of_each_call():
    steps = [[call("a", (2,), seconds=t), call("b", (3,), seconds=t)] for t in (1.0, 5.0, 2.0)]
    assert [each.seconds for each in medians(steps)] == [2.0, 2.0]


SQUARE = ProductLayer(("one", "two"), sizes=(64, 16, 64), flops=10)


def test_products_of_the_same_sizes_are_told_by_their_order():
    calls = [call("matmul", (64,), (16,), (64,))] * 4
    assert [product.kind for product in products_of(calls, [SQUARE])] == [FORWARD] * 2 + [DATA] * 2


def test_a_name_says_more_than_the_order():
    calls = [call("fused_data_gradient_add1", (64,), (16,), (8,), (64,))]
    assert products_of(calls, [SQUARE])[0].kind == DATA


def test_operands_come_before_what_is_fused():
    layers = [SQUARE, ProductLayer(("strided",), sizes=(64, 16, 32), flops=5)]
    mask = (64,)
    (product,) = products_of([call("fused_data_gradient_where", (32,), (16,), mask, (64,))], layers)
    assert product.layer.names == ("strided",)


def test_products_of_many_steps_may_be_one():
    layer = ProductLayer(("w",) * 3, sizes=(4, 6, 8), flops=10)
    (product,) = products_of([call("matmul", (12,), (24,), (6,))], [layer])
    assert (product.kind, product.flops) == (WEIGHT, 30)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("fused_multiply_add", [(64,), (16,), (64,)]),
        ("matmul", [(64,), (16,), (32,)]),
        ("matmul", [(64,), (64,)]),
    ],
)
def test_what_is_no_product(name, shapes):
    assert products_of([call(name, *shapes)], [SQUARE]) == [None]
