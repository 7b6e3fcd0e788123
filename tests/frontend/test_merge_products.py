"""The gradient of a weight that every step reads is one product."""

from collections import Counter

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.frontend.backward.merge_products import FEWEST, GROUP, MergeProducts
from odtc.frontend.backward.rebuild import builder_with_kernels, replay_body
from tests.host import loaded

ROWS, LEFT, RIGHT = 3, 4, 5


def sum_of_products(count: int, extra: bool = False, shared: bool = False) -> tvm.IRModule:
    """`f(a0, b0, ..., c) = a0' b0 + ... [+ c]`; times its first part, if that is shared."""
    shapes = [shape for _ in range(count) for shape in ((ROWS, LEFT), (ROWS, RIGHT))]
    params = [
        relax.Var(f"a{at}", relax.TensorType(shape, "float32"))
        for at, shape in enumerate([*shapes, (LEFT, RIGHT)])
    ]
    builder = relax.BlockBuilder()
    with builder.function("f", params):
        with builder.dataflow():
            total = builder.emit(params[-1]) if extra else None
            partial = None
            for a, b in zip(params[:-1:2], params[1::2], strict=True):
                product = builder.emit(R.matmul(builder.emit(R.permute_dims(a)), b))
                total = product if total is None else builder.emit(R.add(total, product))
                partial = total if partial is None else partial
            total = builder.emit(R.multiply(total, partial)) if shared else total
            result = builder.emit_output(total)
        builder.emit_func_output(result)
    return builder.finalize()


def merged(module: tvm.IRModule) -> tvm.IRModule:
    function = module["f"]
    builder = builder_with_kernels(module)
    with builder.function("f", function.params):
        with builder.dataflow():
            replay_body(builder, function, MergeProducts(function))
            (inner,) = [b.value for b in function.body.blocks[0].bindings[-1:]]
            result = builder.emit_output(inner)
        builder.emit_func_output(result)
    return relax.transform.DeadCodeElimination()(builder.finalize())


def calls(module: tvm.IRModule) -> Counter:
    found: Counter = Counter()

    def visit(expression: relax.Expr) -> None:
        found[operator_of(expression)] += 1

    relax.analysis.post_order_visit(module["f"].body, visit)
    return found


def value(module: tvm.IRModule) -> np.ndarray:
    rng = np.random.default_rng(0)
    shapes = [[int(n) for n in param.ty.shape] for param in module["f"].params]
    arguments = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    machine = relax.VirtualMachine(loaded(module), tvm.cpu())
    return machine["f"](*(tvm.runtime.tensor(each) for each in arguments)).numpy()


@pytest.mark.parametrize(("count", "extra"), [(FEWEST, False), (GROUP + 3, True)])
def test_many_products_become_one(count: int, extra: bool) -> None:
    before = sum_of_products(count, extra)
    after = merged(before)
    assert calls(after)["relax.matmul"] == 1
    assert calls(after)["relax.add"] == int(extra)
    np.testing.assert_allclose(value(after), value(before), rtol=1e-4, atol=1e-5)


def test_few_products_are_left_alone() -> None:
    assert calls(merged(sum_of_products(FEWEST - 1)))["relax.matmul"] == FEWEST - 1


def test_a_product_that_something_else_reads_is_left_alone() -> None:
    before = sum_of_products(FEWEST + 1, shared=True)
    after = merged(before)
    assert calls(after)["relax.matmul"] == 2
    np.testing.assert_allclose(value(after), value(before), rtol=1e-4, atol=1e-5)
