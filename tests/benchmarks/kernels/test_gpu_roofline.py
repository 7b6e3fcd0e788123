"""The roofline of a step on a GPU: its calls, their times on the device, and their families."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.gpu.prepare import copy_runtime, folder_of, prepare, targets_of
from benchmarks.gpu.profile import calls_of, shares_of
from benchmarks.gpu.program_calls import without_parts
from benchmarks.gpu.roofline import GpuCeilings, families_of, family_of
from benchmarks.gpu.run import layers_in
from benchmarks.gpu.steps import OdtcStep
from benchmarks.kernel_time.calls import KernelCall
from benchmarks.kernel_time.products import (
    DATA,
    FORWARD,
    WEIGHT,
    LayerProduct,
    ProductLayer,
    products_of,
)
from benchmarks.models.pytorch.spec import batches
from benchmarks.models.pytorch.table import FULL
from odtc.driver.drafts.fitting import PRECISIONS
from tests.gpu.on_device import KINDS


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_of_a_step_has_its_time_and_its_family(
    kind: str, precision: str, tmp_path: Path
) -> None:
    copy_runtime(tmp_path)
    prepare("lenet", 4, f"host-{kind}", tmp_path / "step", precision)
    step = OdtcStep(tmp_path / "step", lr=0.01)
    x, y = next(batches(FULL["lenet"]))
    # Of random labels of ten classes, whatever the loss is scaled by.
    assert step({name: array[:4] for name, array in x.items()}, y[:4]) == pytest.approx(
        2.3, rel=0.1
    )
    timed, begin, end = step.timed()
    shares, calls = shares_of(timed, begin, end), calls_of(timed, step.about["calls"])
    assert len(calls) > 20
    assert all(call.seconds > 0 for call in calls)
    assert 0 < shares["kernels"] <= shares["span"]
    assert shares["kernels"] + shares["moves"] + shares["gaps"] == shares["span"]
    products = products_of(calls, layers_in(step.about))
    kinds = Counter(product.kind for product in products if product)
    assert kinds == {FORWARD: 5, DATA: 4, WEIGHT: 5}
    families = {f.name: f for f in families_of(calls, products, GpuCeilings(1e12, 1e11))}
    assert {FORWARD, DATA, WEIGHT, "pooling", "update", "softmax and loss"} <= families.keys()
    assert sum(family.calls for family in families.values()) == len(calls)


@pytest.mark.parametrize(
    ("name", "shapes", "count"),
    [
        ("matmul7", [[9, 8], [9, 6], [8, 6], [4, 8, 6]], 3),
        # Of a batch, no tensor is parts of the others.
        ("matmul7", [[4, 8, 5], [4, 5, 6], [4, 8, 6]], 3),
        ("attention", [[1, 6, 2, 4], [1, 6, 2, 4], [1, 6, 2, 4], [1, 2, 6], [1, 2, 6]], 5),
        ("data_gradient5", [[2, 8, 3, 3], [8, 4, 3, 3], [2, 4, 6, 6], [2, 4, 18], [3, 4, 18]], 3),
        ("batch_norm", [[2, 8, 9], [8], [8], [2, 8, 3]], 4),
    ],
)
def test_parts_of_sums_are_no_tensors_of_a_call(
    name: str, shapes: list[list[int]], count: int
) -> None:
    assert without_parts(name, shapes) == count


def test_attention_has_operations() -> None:
    """Two products of 3 x 5 scores for 2 x 4 heads of 7 elements, and five in its gradient."""
    q, k, top = (2, 3, 4, 7), (2, 4, 5, 7), (2, 4, 3)
    calls = [
        KernelCall("attention1", (q, k, k, q, top, top), bytes=0, seconds=1.0),
        KernelCall("attention_gradient", (q, k, k, q, q, top, top, q, k, k, top), 0, 1.0),
    ]
    (found,) = families_of(calls, [None, None], GpuCeilings(1e9, 1e8))
    assert (found.name, found.flops) == ("attention", (2 + 5) * 2 * (2 * 4 * 3 * 5 * 7))


def test_a_family_is_compared_with_its_bounds() -> None:
    ceilings = GpuCeilings(product=1e9, copy=1e8)
    layer = ProductLayer(("w",), (1, 1, 1), flops=10**9)
    shapes = ((1,), (1,), (1,))
    calls = [
        KernelCall("matmul", shapes, bytes=10**6, seconds=2.0),
        KernelCall("matmul", shapes, bytes=10**8, seconds=1.5),
        KernelCall("batch_norm3", shapes, bytes=10**8, seconds=4.0),
        KernelCall("fused_transpose_reshape1", shapes, bytes=10**8, seconds=1.0),
    ]
    product = LayerProduct(FORWARD, layer, layer.flops)
    found = families_of(calls, [product, product, None, None], ceilings)
    assert [family.name for family in found] == ["normalisation", FORWARD, "copies"]
    norms, products, copies = found
    # One product is bound by its operations, the other by either; a second each.
    assert (products.seconds, products.bound, products.flops) == (3.5, 2.0, 2 * 10**9)
    assert norms.lost == pytest.approx(3.0)
    assert copies.lost == pytest.approx(0.0)
    assert "57% of its roofline" in products.text(total=8.5)


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("fused_tir_negative_sum1", "sums"),
        ("fused_expand_dims_subtract_tir_exp_tir_isnan_where1", "softmax and loss"),
        ("fused_reshape2_add", "elementwise"),
        ("layer_norm_gradient", "normalisation"),
        ("max_pool2d_gradient", "pooling"),
    ],
)
def test_a_name_says_what_family_it_is(kernel: str, family: str) -> None:
    assert family_of(kernel) == family


def test_steps_are_timed_where_there_is_no_compiler() -> None:
    """A machine with a GPU that is rented has no TVM."""
    absent = "import sys; sys.modules.update(tvm=None, tvm_ffi=None, onnx=None)"
    code = f"{absent}; import benchmarks.gpu.run"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_several_targets_and_precisions_lie_side_by_side() -> None:
    assert targets_of("host-opencl|host-vulkan{mcpu=x86-64-v3}") == [
        "host-opencl{mcpu=x86-64-v3}",
        "host-vulkan{mcpu=x86-64-v3}",
    ]
    assert targets_of("host-opencl") == ["host-opencl"]
    folders = {
        folder_of("lenet", target, precision)
        for target in ("host-opencl", "host-vulkan{mcpu=x86-64-v3}")
        for precision in PRECISIONS
    }
    assert folders == {"lenet-opencl", "lenet-vulkan", "lenet-opencl-mixed", "lenet-vulkan-mixed"}
