"""Elements that are found by their positions are read and written through views, on CPUs alone."""

import math
from functools import partial

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.families import family_of
from odtc.backends.targets import parse_target
from odtc.core.specs import Block
from odtc.frontend.optimizers.groups import ParameterRule
from odtc.frontend.optimizers.table import parse_optimizer
from odtc.frontend.updates.control_kernels import total_kernel
from odtc.frontend.updates.elementwise import for_each
from odtc.frontend.updates.elementwise import kernel as made_kernel
from odtc.frontend.updates.part_update import on_block
from odtc.frontend.updates.update_kernels import accumulate_kernel, update_kernel
from odtc.passes.contract import run_pipeline
from odtc.passes.kernel.flat_elements import FlatElements

RULE = ParameterRule(parse_optimizer("sgd{momentum=0.5}"))
# Chunks of the last two begin within a row, and one has a shorter chunk at its end.
SHAPES = [(5, 3, 1, 1), (96, 128, 3, 3), (1001, 37)]


def of_cpu(kernel: tirx.PrimFunc) -> tvm.IRModule:
    resolved = parse_target("host-cpu").resolved()
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with resolved.to_tvm():
        return run_pipeline(family_of(resolved).blocks, module)


def divisions(module: tvm.IRModule) -> int:
    found: list[tvm.ir.Expr] = []
    for kind in (tirx.FloorDiv, tirx.FloorMod):
        tvm_ffi.structural_walk(module["main"].body, (kind, found.append))
    return len(found)


def compiled(kernel: tirx.PrimFunc) -> tvm.runtime.Module:
    target = parse_target("host-cpu").resolved().to_tvm()
    with target:
        return tvm.compile(of_cpu(kernel), target)["main"]


def tensor(value: object, dtype: str = "float32") -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.asarray(value, dtype))


KERNELS = {
    "update": partial(update_kernel, RULE),
    "accumulate": partial(accumulate_kernel, every=2),
    "total": partial(total_kernel, every=1, scaled=False),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_position_is_taken_apart(shape: tuple[int, ...], name: str) -> None:
    """What is divided is what a kernel of a vector divides."""
    make = KERNELS[name]
    assert divisions(of_cpu(make(shape))) == divisions(of_cpu(make((math.prod(shape),))))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_numbers_are_those_of_the_update(shape: tuple[int, ...]) -> None:
    w, v, g = np.random.default_rng(0).standard_normal((3, *shape), np.float32)
    given = [tensor(w), tensor(v)]
    compiled(update_kernel(RULE, shape))(
        *given, tensor(g), tensor(0.25), tensor(0, "int32"), tensor(0.0)
    )
    np.testing.assert_allclose(given[1].numpy(), 0.5 * v + g, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(given[0].numpy(), w - 0.25 * (0.5 * v + g), rtol=1e-6, atol=1e-6)


def test_a_block_of_a_larger_tensor_keeps_its_indices() -> None:
    """It is not dense: the view would be of other elements."""
    whole, block = (6, 4, 3), Block(axis=1, start=1, size=2)
    part = (6, 2, 3)
    kernel = on_block(update_kernel(ParameterRule(parse_optimizer("sgd")), part), [0], whole, block)
    w, g = np.ones(whole, np.float32), np.arange(math.prod(part), dtype=np.float32).reshape(part)
    given = tensor(w)
    compiled(kernel)(given, tensor(g), tensor(1.0), tensor(0, "int32"), tensor(0.0))
    w[:, 1:3] -= g
    np.testing.assert_array_equal(given.numpy(), w)


def test_a_gpu_has_no_views() -> None:
    family = family_of(parse_target("host-opencl").resolved())
    assert not any(isinstance(each, FlatElements) for each in family.blocks)


def test_a_tensor_that_is_read_elsewhere_too_keeps_its_indices() -> None:
    """For LLVM a view and its tensor are apart: stores of one may pass loads of the other."""
    with made_kernel("twice") as made:
        x, y = (T.arg(name, T.buffer((4, 6), "float32")) for name in "xy")
        for_each((4, 6), lambda at: T.buffer_store(y, x[at] + x[1, 2], at))
    module = of_cpu(made())
    views: list[str] = []
    tvm_ffi.structural_walk(
        module["main"].body, (tirx.DeclBuffer, lambda each: views.append(str(each.buffer.name)))
    )
    assert [name for name in views if name.endswith("_flat")] == ["y_flat"]
