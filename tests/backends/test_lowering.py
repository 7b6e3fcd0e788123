"""A training graph becomes kernels, whatever its expressions look like."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from odtc.autoschedule.table import schedule_passes
from odtc.backends.families import family_of
from odtc.backends.lowering import build
from odtc.backends.pipeline.phases import fuse_phase
from odtc.backends.targets import parse_target
from odtc.passes.contract import run_pipeline
from tests.host import loaded

TUPLES, ITEMS = 8, 3
TENSOR = relax.TensorType((ITEMS, 4), "float32")


def taken_apart(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    return builder.emit(relax.Tuple([op.exp(part) for part in rows(builder, x)]))


def rows(builder: relax.BlockBuilder, x: relax.Expr) -> list[relax.Expr]:
    return [builder.emit(op.strided_slice(x, [0], [i], [i + 1])) for i in range(ITEMS)]


def split(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    return builder.emit(op.split(builder.emit(op.exp(x)), ITEMS, 0))


def folded(tuple_of: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]) -> tvm.IRModule:
    """Each element of several tuples minus what came before it."""
    parameters = [relax.Var(f"p{i}", TENSOR) for i in range(TUPLES)]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            tuples = [tuple_of(builder, p) for p in parameters]
            items = [builder.emit(relax.TupleGetItem(t, i)) for t in tuples for i in range(ITEMS)]
            total = items[0]
            for item in items[1:]:
                total = builder.emit(op.subtract(item, total))
            result = builder.emit_output(total)
        builder.emit_func_output(result)
    return builder.finalize()


@pytest.mark.parametrize("tuple_of", [taken_apart, split])
def test_elements_of_several_tuples_meet_in_one_kernel(
    tuple_of: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr],
) -> None:
    arrays = np.random.default_rng(0).standard_normal((TUPLES, ITEMS, 4)).astype(np.float32)
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    expected = np.zeros((1, 4), np.float32)
    for part in np.exp(arrays).reshape(-1, 1, 4):
        expected = part - expected
    # FuseOps goes through tuples in the order of their addresses, which is right now and then.
    modules = [folded(tuple_of) for _ in range(8)]
    for module in modules:
        fused = run_pipeline(fuse_phase(family_of(parse_target("host-cpu").resolved())), module)
        executable = loaded(fused)
        found = relax.VirtualMachine(executable, tvm.cpu())["main"](*tensors).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_step_checks_its_own_arguments_since_kernels_do_not() -> None:
    module = folded(split)
    target = parse_target("host-cpu").resolved()
    built = build(module, target, None, schedule_passes(target))
    main = relax.VirtualMachine(built.executable, tvm.cpu())["main"]
    given = [tvm.runtime.tensor(np.zeros((ITEMS, 4), np.float32)) for _ in range(TUPLES)]
    assert np.isfinite(main(*given).numpy()).all()
    for shape, dtype in (((ITEMS, 5), "float32"), ((ITEMS, 4), "float64"), ((ITEMS,), "float32")):
        bad = tvm.runtime.tensor(np.zeros(shape, dtype))
        with pytest.raises((RuntimeError, ValueError), match="ErrorContext"):
            main(*given[:-1], bad)
