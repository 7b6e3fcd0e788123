"""Depthwise convolutions and their gradients: whatever is decided, PyTorch's values in float64."""

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import ir, relax, tirx
from tvm.relax import transform as X  # noqa: N812

from odtc.autoschedule.tuning.tasks import Writer
from odtc.backends.caches import Caches
from odtc.backends.cost.workload import workload_of
from odtc.backends.decisions import TunedChoice
from odtc.backends.kernels.convolution.rules import convolution_rules, marked
from odtc.backends.kernels.convolution.terms import Convolution
from odtc.backends.kernels.grouped.depthwise import DEPTHWISE_LOOPS
from odtc.backends.kernels.grouped.depthwise import FAMILIES as PLANES
from odtc.backends.kernels.grouped.depthwise_planes import band_of_image
from odtc.backends.kernels.grouped.rules import TRANSPOSED, grouped_rules
from odtc.backends.kernels.pool.planes import Window
from odtc.backends.kernels.product.fused import FusedProduct, fused_product
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.targets import parse_target
from odtc.backends.write_products import WriteProducts, write_product
from odtc.core.ir.product_marks import TUNED, WORKLOAD
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.frontend.gradients.table import register_gradients
from odtc.passes.ir.bindings import bindings_of
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

# With AVX-512, with short vectors, and phones' cores, whose caches are known: one that loads half a
# vector at a time, and one that loads it all.
SHORT = machine_of(128)
NARROW = machine_of(128, caches=Caches(1 << 15, 1 << 17, loaded=8))
PHONE = machine_of(128, caches=Caches(1 << 16, 1 << 19))
MACHINES = [machine_of(512), SHORT, NARROW, PHONE]
FAMILIES = ["convolution", "data-gradient", "weight-gradient"]
# Of a window that walks over more than one band.
LARGE = {
    "shape": (2, 3, 45, 37),
    "filters": 1,
    "kernel": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
    "dilation": (1, 1),
}


@st.composite
def convolutions(draw: st.DrawFn) -> dict:
    """Planes of one band, and of several."""
    small, side = st.integers(1, 3), st.integers(3, 50)
    return {
        "shape": (draw(st.integers(1, 2)), draw(st.integers(2, 3)), draw(side), draw(side)),
        "filters": draw(st.integers(1, 2)),
        "kernel": (draw(st.integers(1, 5)), draw(small)),
        "stride": (draw(small), draw(small)),
        "padding": (draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        "dilation": (draw(small), draw(small)),
    }


def fits(case: dict) -> bool:
    """Whether the window fits into the padded image."""
    axes = zip(case["shape"][2:], case["kernel"], case["dilation"], case["padding"], strict=True)
    return all(size + 2 * pad > (taps - 1) * gap for size, taps, gap, pad in axes)


def gradients_of(
    call: relax.Call, x: relax.Var, w: relax.Var, dy: relax.Var
) -> tuple[relax.Call, relax.Call]:
    """The gradients of a convolution's data and weight, as a step has them."""
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, dy]):
        with builder.dataflow():
            y = builder.emit(call)
            loss = builder.emit_output(relax.op.sum(relax.op.multiply(y, dy)))
        builder.emit_func_output(loss)
    register_gradients()
    adjoint = X.Gradient("main", require_grads=[x, w])(builder.finalize())["main_adjoint"]
    calls = {operator_of(binding.value): binding.value for binding in bindings_of(adjoint)}
    return calls[TRANSPOSED], calls[grouped_weight_gradient.name]


def kernels_of(case: dict, on: Machine, *, has_tail: bool = False) -> dict[str, FusedProduct]:
    """The three products of a convolution's step, by family; a rectifier is after the first."""
    shape, channels = case["shape"], case["shape"][1]
    weight = (channels * case["filters"], 1, *case["kernel"])
    x, w = (
        relax.Var(name, relax.TensorType(sizes, "float32"))
        for name, sizes in (("x", shape), ("w", weight))
    )
    steps = {"strides": list(case["stride"]), "dilation": list(case["dilation"])}
    call = relax.op.nn.conv2d(x, w, padding=[*case["padding"] * 2], groups=channels, **steps)
    dy = relax.Var("dy", relax.BlockBuilder().normalize(call).ty)
    data, weights = gradients_of(call, x, w, dy)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, dy]):
        with builder.dataflow():
            y = builder.emit(call)
            y = builder.emit(relax.op.nn.relu(y)) if has_tail else y
            dx = builder.emit(relax.Call(data.op, [dy, w], data.attrs))
            dw = builder.emit(relax.Call(weights.op, [x, dy], weights.attrs))
            result = builder.emit_output(relax.Tuple([y, dx, dw]))
        builder.emit_func_output(result)
    module = builder.finalize()
    rules = grouped_rules(convolution_rules(), on)
    for step in (
        X.LegalizeOps(rules),
        X.AnnotateTIROpPattern(),
        X.FuseOps(),
        X.FuseTIR(),
        X.DeadCodeElimination(),
    ):
        module = step(module)
    functions = (f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc))
    found = [product for product in map(fused_product, functions) if product]
    return {product.family.removeprefix("depthwise-"): product for product in found}


def expected(case: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x, w, dy = (
        torch.tensor(arrays[name], dtype=torch.float64, requires_grad=True)
        for name in ("x", "w", "dy")
    )
    steps = {key: case[key] for key in ("stride", "padding", "dilation")}
    y = torch.nn.functional.conv2d(x, w, None, groups=case["shape"][1], **steps)
    y.backward(dy)
    results = dict(zip(FAMILIES, (y, x.grad, w.grad), strict=True))
    return {name: each.detach().numpy() for name, each in results.items() if each is not None}


def check(family: str, case: dict, on: Machine, data: st.DataObject) -> None:
    """One product with choices that are drawn."""
    product = kernels_of(case, on)[family]
    told: dict[str, tuple[int, ...]] = {}
    machine, decisions = on.telling(told)
    write_product(product, machine, DEPTHWISE_LOOPS)
    for name, decision in decisions.made.items():
        told[name] = data.draw(st.sampled_from(decision.candidates), name)
    machine, decisions = on.telling(told)
    kernel = write_product(product, machine, DEPTHWISE_LOOPS)
    assert not decisions.unknown
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    # Sums of quarters are exact.
    values = [(rng.integers(-8, 8, shape) / 4).astype(np.float32) for shape in shapes[:-1]]
    names = {"convolution": "x w", "data-gradient": "dy w", "weight-gradient": "x dy"}
    arrays = dict(zip(names[family].split(), values, strict=True))
    # In the place of the result: its values have no part in it.
    for name in {"x", "w", "dy"} - set(arrays):
        arrays[name] = np.zeros(shapes[-1], np.float32)
    (found,) = run_guarded(kernel, values)
    np.testing.assert_array_equal(found, expected(case, arrays)[family].astype(np.float32))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=examples(8), deadline=None)
@given(case=convolutions(), on=st.sampled_from(MACHINES), data=st.data())
def test_every_choice_computes_the_same(
    family: str, case: dict, on: Machine, data: st.DataObject
) -> None:
    assume(fits(case))
    check(family, case, on, data)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=examples(4), deadline=None)
@given(stride=st.integers(1, 2), on=st.sampled_from(MACHINES), data=st.data())
def test_planes_of_several_bands(
    family: str, stride: int, on: Machine, data: st.DataObject
) -> None:
    check(family, LARGE | {"stride": (stride, stride)}, on, data)


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_pairs_of_rows_are_as_many_as_there_are(rows: int) -> None:
    """Rows of bands that reach back, with an odd number of new rows, too."""
    phone = PHONE.telling({"block": (rows,)})[0]
    product = kernels_of(LARGE, phone)["weight-gradient"]
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    x, dy = ((rng.integers(-8, 8, shape) / 4).astype(np.float32) for shape in shapes[:2])
    (found,) = run_guarded(write_product(product, phone, DEPTHWISE_LOOPS), [x, dy])
    arrays = {"x": x, "dy": dy, "w": np.zeros(shapes[-1], np.float32)}
    wanted = expected(LARGE, arrays)["weight-gradient"].astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("family", ["convolution", "weight-gradient"])
def test_a_phone_shares_rows_where_windows_overlap(family: str) -> None:
    """Short vectors alone change nothing."""
    product = kernels_of(LARGE, PHONE)[family]
    drafts = [write_product(product, on, DEPTHWISE_LOOPS) for on in (SHORT, PHONE)]
    assert not tvm_ffi.structural_equal(*drafts)


@pytest.mark.parametrize(("columns", "rows"), [(31, 4), (37, 4), (29, 2)])
def test_a_phone_computes_four_rows_with_a_stride_where_they_have_four_vectors(
    columns: int, rows: int
) -> None:
    case = LARGE | {"stride": (2, 2), "shape": (2, 3, 45, columns)}
    machine, decisions = PHONE.telling({})
    write_product(kernels_of(case, PHONE)["convolution"], machine, DEPTHWISE_LOOPS)
    assert decisions.made["rows"].default == (rows,)


@pytest.mark.parametrize(
    ("on", "stride", "left"), [(PHONE, 2, 4), (PHONE, 1, 1), (NARROW, 2, 1), (SHORT, 2, 1)]
)
def test_rows_of_a_phone_begin_with_a_vector_where_a_stride_is_taken_out(
    on: Machine, stride: int, left: int
) -> None:
    """Taps that are not shifted are loads of whole vectors then; no other machine pays for it."""
    window = Window((45, 37), (23, 19), (3, 3), (stride, stride), (1, 1), (1, 1))
    assert band_of_image(window, on).left == left


def vectors_read(family: str, on: Machine) -> int:
    """Loads of vectors of a band in the code of a kernel of two rows at once."""
    product = kernels_of(LARGE, on)[family]
    kernel = write_product(product, on.telling({"rows": (2,)})[0], DEPTHWISE_LOOPS)
    found: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(kernel.body, (ir.TensorLoad, found.append))
    vectors = [load for load in found if isinstance(load.indices[-1], tirx.Ramp)]
    bands = [load for load in vectors if len(load.indices) == 2 and load.source.shape[1] > 64]
    return len(bands)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_core_that_loads_half_a_vector_loads_each_row_once(family: str) -> None:
    """For two rows of results four in the loop, four before it, eight after; three for one row."""
    assert vectors_read(family, PHONE) == 2 * (18 + 9)
    assert vectors_read(family, NARROW) == (4 + 4 + 8) + (3 + 3 + 6)


@pytest.mark.parametrize("family", FAMILIES)
def test_there_is_something_to_decide(family: str) -> None:
    product = kernels_of(LARGE, machine_of(256))[family]
    machine, decisions = machine_of(256).telling({})
    write_product(product, machine, DEPTHWISE_LOOPS)
    assert {"block", "tasks"} <= set(decisions.made)
    assert all(len(each.candidates) > 1 for each in decisions.made.values())
    assert all(each.default == each.candidates[0] for each in decisions.made.values())


def test_what_is_behind_a_convolution_is_stored_by_its_kernel() -> None:
    product = kernels_of(LARGE, machine_of(256), has_tail=True)["convolution"]
    machine = machine_of(256)
    assert workload_of(product, machine).endswith("= T.max(x, T.float32(0.0))")
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    x, w = (rng.integers(-8, 8, shape).astype(np.float32) for shape in shapes[:2])
    (found,) = run_guarded(write_product(product, machine, DEPTHWISE_LOOPS), [x, w])
    y = expected(LARGE, {"x": x, "w": w, "dy": np.zeros(shapes[-1], np.float32)})["convolution"]
    np.testing.assert_array_equal(found, np.maximum(y, 0))


def test_workloads_that_differ_share_no_record() -> None:
    machine = machine_of(256)
    near = [
        LARGE,
        LARGE | {"stride": (2, 2)},
        LARGE | {"filters": 2},
        LARGE | {"dilation": (2, 2), "padding": (2, 2)},
        LARGE | {"shape": (2, 4, 45, 37)},
    ]
    texts = [
        workload_of(product, machine)
        for case in near
        for product in kernels_of(case, machine).values()
    ]
    texts.append(workload_of(kernels_of(LARGE, machine, has_tail=True)["convolution"], machine))
    assert len(texts) == len(set(texts)) == 16


def test_a_record_tells_a_depthwise_convolution_its_loops() -> None:
    shapes = [(2, 8, 40, 40), (8, 1, 3, 3), (2, 8, 40, 40)]
    operands = [relax.Var("x", relax.TensorType(s, "float32")) for s in shapes[:2]]
    convolution = Convolution("convolution", shapes, (1, 1), (1, 1), (1, 1), groups=8)
    kernel = marked(convolution, PLANES["convolution"], operands, None)
    writer, machine = Writer(parse_target("host-cpu{threads=1}").resolved()), machine_of(256)
    usual, other = writer.draft(kernel, {}), writer.draft(kernel, {"rows": (4,)})
    assert usual is not None
    assert other is not None
    assert usual != other
    assert writer.draft(kernel, {"rows": (3,)}) is None
    product = fused_product(kernel)
    assert product is not None
    wanted = workload_of(product, machine)
    for rows, mark in ((4, "here"), (3, None)):
        records = {wanted: TunedChoice({"rows": (rows,)}, "here")}.get
        written = WriteProducts(machine, DEPTHWISE_LOOPS, records).run(tvm.IRModule({"k": kernel}))
        attrs = written["k"].attrs
        assert attrs[WORKLOAD] == wanted
        assert attrs.get(TUNED) == mark
