"""The roofline of a step on a GPU: its calls, their times on the device, and their families."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.gpu.prepare import copy_runtime, prepare
from benchmarks.gpu.profile import calls_of, shares_of
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
from tests.gpu.on_device import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_of_a_step_has_its_time_and_its_family(kind: str, tmp_path: Path) -> None:
    copy_runtime(tmp_path)
    prepare("lenet", 4, f"host-{kind}", tmp_path / "step")
    step = OdtcStep(tmp_path / "step", lr=0.01)
    x, y = next(batches(FULL["lenet"]))
    step({name: array[:4] for name, array in x.items()}, y[:4])
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
