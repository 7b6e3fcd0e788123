"""Reductions, scheduled by rule, on this machine's devices."""

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op
from tvm.relax import transform as X  # noqa: N812

from odtc.autoschedule.gpu import schedule_kernel
from odtc.backends.families import family_of
from odtc.backends.gpu.known import GPUS
from odtc.backends.gpu.machine import LARGE, PHONE
from odtc.backends.targets import parse_target
from tests.fast import fast_if
from tests.gpu.on_device import KINDS, run_kernel

FORMS: dict[str, tuple[Callable[..., relax.Expr], Callable[..., np.ndarray], str]] = {
    "sum": (op.sum, np.sum, "float32"),
    "max": (op.max, np.max, "float32"),
    "min": (op.min, np.min, "float32"),
    "whole-max": (op.max, np.max, "int32"),
    "prod": (op.prod, np.prod, "float32"),
}


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("sizes", [(3, 130), (2, 20000), (2, 7)], ids=str)
def test_of_neighbours(kind: str, name: str, sizes: tuple[int, int]) -> None:
    check(kind, name, sizes, -1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "sizes"), [("sum", (1 << 14, 128)), ("max", (1 << 14, 70)), ("prod", (24 * 700, 64))]
)
def test_of_neighbours_with_many_results(kind: str, name: str, sizes: tuple[int, int]) -> None:
    check(kind, name, sizes, -1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("sum", (4096, 48)),
        ("whole-max", (4096, 768)),
        ("min", (1021, 32)),
        ("prod", (64, 7)),
        ("sum", (130, 1 << 14)),
    ],
)
def test_of_columns(kind: str, name: str, sizes: tuple[int, int]) -> None:
    check(kind, name, sizes, 0)


def check(kind: str, name: str, sizes: tuple[int, int], axis: int) -> None:
    """Compares with numpy, as it is scheduled for three GPUs."""
    reduce, reference, dtype = FORMS[name]
    x = relax.Var("x", relax.TensorType(sizes, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(reduce(x, axis))
        builder.emit_func_output(result)
    rules = family_of(parse_target(f"host-{kind}").resolved()).rules
    module = X.LegalizeOps(rules)(builder.finalize())
    (kernel,) = (f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc))
    data = np.random.default_rng(0).uniform(-4, 4, sizes)
    if name == "prod":
        data = 1 + data / sizes[axis] / 4
    if name == "max":
        data[0] = -np.inf
    given = data.astype(dtype)
    wanted = reference(given.astype("int64" if "int" in dtype else "float64"), axis=axis)
    for gpu in (PHONE, GPUS["mali-g76"], LARGE):
        scheduled = schedule_kernel(kernel.with_attr("global_symbol", "main"), gpu)
        found = run_kernel(kind, scheduled, [given], wanted.shape, dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
