"""Winograd's form of 3x3 convolutions and of their data's gradients, against float64."""

import itertools
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tvm import relax, tirx

import odtc
from odtc.backends.built import winograd_kernels
from odtc.backends.caches import Caches
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.product.fused import FusedProduct, fused_product
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.kernels.winograd import cut as winograd_cut
from odtc.backends.kernels.winograd.cut import is_winograd
from odtc.backends.write_products import write_product
from tests.backends.products.guarded import run_guarded
from tests.backends.products.test_write_products import (
    FORMS,
    TAILS,
    arrays_for,
    conv_module,
    fused,
    run,
)
from tests.fast import examples

DIRECT, WINOGRAD = {"form": (0,)}, {"form": (1,)}
MACHINES = [machine_of(bits) for bits in (128, 256, 512)]
# A cache so small that a block is a row of patches.
MACHINES.append(replace(machine_of(128), cache_bytes=1 << 9))
# One whose first-level cache is known, too.
MACHINES.append(machine_of(128, caches=Caches(1 << 11, 1 << 14)))
IDS = ["neon", "avx2", "avx-512", "tiny", "caches"]

CASE: dict = {"batch": 2, "channels": 5, "filters": 19, "image": (11, 9), "pad": (1, 1, 1, 1)}


@st.composite
def convolutions(draw) -> dict:
    """Padding is that of rows and columns before, then after; there is one result at least."""
    pad = tuple(draw(st.integers(0, 2)) for _ in range(4))
    image = (draw(st.integers(3 - pad[i] - pad[i + 2], 37)) for i in range(2))
    return {
        "batch": draw(st.integers(1, 3)),
        "channels": draw(st.integers(1, 40)),
        "filters": draw(st.integers(1, 40)),
        "image": tuple(max(size, 1) for size in image),
        "pad": pad,
    }


def product_of(case: dict, *, is_gradient: bool) -> FusedProduct:
    """The product of a convolution, or of its data's gradient."""
    weight = (case["filters"], case["channels"], 3, 3)
    pad, image = list(case["pad"]), (case["batch"], case["channels"], *case["image"])
    x, w = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in (("x", image), ("w", weight)))
    if is_gradient:
        sizes = [size + pad[i] + pad[i + 2] - 2 for i, size in enumerate(case["image"])]
        x = relax.Var("dy", relax.TensorType((case["batch"], case["filters"], *sizes), "float32"))
    operator = relax.op.nn.conv2d_transpose if is_gradient else relax.op.nn.conv2d
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            result = builder.emit_output(operator(x, w, padding=pad))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps(convolution_rules())(builder.finalize())
    functions = [f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc)]
    (product,) = (found for found in map(fused_product, functions) if found)
    return product


def written(product: FusedProduct, machine: Machine, choice: dict) -> tirx.PrimFunc:
    """The kernel with a given choice, which it must have."""
    telling, decisions = machine.telling(choice)
    kernel = write_product(product, telling, CPU_LOOPS)
    assert not decisions.unknown
    return kernel


def exact(case: dict, image: np.ndarray, weight: np.ndarray, *, is_gradient: bool) -> np.ndarray:
    """Computes the kernel's result in float64."""
    top, left, bottom, right = case["pad"]
    x, w = torch.tensor(image).double(), torch.tensor(weight).double()
    if not is_gradient:
        padded = torch.nn.functional.pad(x, (left, right, top, bottom))
        return torch.nn.functional.conv2d(padded, w).numpy()
    whole = torch.nn.functional.conv_transpose2d(x, w)
    high, wide = case["image"]
    return whole[:, :, top : top + high, left : left + wide].numpy()


def drawn(product: FusedProduct) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters[:-1]]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("is_gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("machine", MACHINES, ids=IDS)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=convolutions())
# Odd sizes, patches of which a row and a column are left over.
@example(CASE)
# One result; a row of one patch.
@example(CASE | {"image": (3, 3), "pad": (0, 0, 0, 0)})
@example(CASE | {"image": (1, 2)})
# Padding on one side only.
@example(CASE | {"pad": (2, 0, 0, 1)})
# Rows of more patches than a vector has elements; the last block reaches back.
@example(CASE | {"image": (10, 70), "channels": 16})
# Many blocks, in which rows of two images are.
@example(CASE | {"batch": 3, "image": (7, 7), "channels": 64, "filters": 33})
def test_against_float64(machine: Machine, is_gradient: bool, case: dict) -> None:
    product = product_of(case, is_gradient=is_gradient)
    image, weight = drawn(product)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_cut, "_LONG", 16)
        kernel = written(product, machine, WINOGRAD)
    (found,) = run_guarded(kernel, [image, weight])
    expected = exact(case, image, weight, is_gradient=is_gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("channels", [16, 256])
def test_the_error_is_within_four_times_that_of_the_direct_form(channels, is_gradient) -> None:
    case = CASE | {"channels": channels, "filters": channels, "image": (13, 13)}
    product = product_of(case, is_gradient=is_gradient)
    image, weight = drawn(product)
    expected = exact(case, image, weight, is_gradient=is_gradient)

    def errors(choice: dict) -> np.ndarray:
        kernel = written(product, machine_of(256), choice)
        return np.abs(run_guarded(kernel, [image, weight])[0] - expected)

    direct, patches = errors(DIRECT), errors(WINOGRAD)
    assert patches.max() <= 4 * direct.max()
    assert np.sqrt((patches**2).mean()) <= 4 * np.sqrt((direct**2).mean())


# Batch, channels, filters and side of the image.
FASTER = [
    (4, 64, 64, 56),
    (4, 128, 128, 28),
    (8, 256, 256, 14),
    (4, 16, 64, 55),
    (8, 64, 256, 13),
    (1, 64, 64, 224),
    (2, 128, 128, 48),
    (4, 64, 256, 13),
    (4, 256, 256, 14),
    (8, 16, 16, 32),
    (1, 64, 64, 14),
    (8, 128, 32, 7),
]
NOT_MUCH_FASTER = [
    # Workspaces as large as these take what products win.
    (8, 3, 16, 32),
    (1, 128, 128, 7),
    (4, 64, 3, 32),
    (2, 512, 256, 24),
    # More bytes of weights than are transformed for a call.
    (8, 512, 512, 28),
]


@pytest.mark.parametrize(
    ("sizes", "is_faster"), [(s, s in FASTER) for s in FASTER + NOT_MUCH_FASTER]
)
def test_the_form_is_taken_where_it_was_faster_when_measured(sizes, is_faster: bool) -> None:
    batch, channels, filters, side = sizes
    walk = [ConvolutionAxis(side, 3, 1, 1, 1, side).forward()] * 2
    assert is_winograd(Shape(batch, channels, filters), [walk], machine_of(512)) == is_faster


PLAIN = ConvolutionAxis(56, 3, 1, 1, 1, 56)


@pytest.mark.parametrize(
    "walks",
    [
        [[ConvolutionAxis(57, 3, 2, 1, 1, 29).forward()] * 2],
        [[ConvolutionAxis(57, 3, 1, 2, 2, 57).forward()] * 2],
        [[ConvolutionAxis(57, 5, 1, 1, 2, 57).forward()] * 2],
        [[PLAIN.forward(), ConvolutionAxis.points(56).forward()]],
        [[PLAIN.forward()] * 3],
        [*itertools.product(*[ConvolutionAxis(56, 3, 2, 1, 1, 28).backward()] * 2)],
        # The gradient where zeros were more than the window reaches.
        [[ConvolutionAxis(56, 3, 1, 1, 3, 60).backward()[0]] * 2],
    ],
    ids=["steps", "dilated", "five taps", "one row", "three axes", "remainders", "cut"],
)
def test_others_have_no_such_form(walks) -> None:
    machine, decisions = machine_of(512).telling(WINOGRAD)
    assert not is_winograd(Shape(4, 64, 64), walks, machine)
    assert not decisions.made


def test_products_of_float16_have_no_such_form() -> None:
    machine, decisions = machine_of(128, has_half=True).telling(WINOGRAD)
    assert not is_winograd(Shape(4, 64, 64), [[PLAIN.forward()] * 2], machine)
    assert not decisions.made


@pytest.mark.parametrize("form", ["3x3", "gradient of 3x3"])
@pytest.mark.parametrize("name", TAILS)
def test_a_tail_is_part_of_the_product(monkeypatch, name: str, form: str) -> None:
    monkeypatch.setattr(winograd_cut, "_MARGIN", 0)
    module = conv_module(13, TAILS[name], FORMS[form])
    arrays = arrays_for(module)
    expected = run(module, arrays)
    for machine in MACHINES:
        lowered = fused(module, machine)
        assert len(winograd_kernels(lowered)) == 1
        np.testing.assert_allclose(run(lowered, arrays), expected, rtol=1e-4, atol=1e-4)


def test_an_artifact_names_the_kernels(tmp_path) -> None:
    """Forward, and of the second convolution the gradient of the data."""
    rng = np.random.default_rng(0)
    shapes = {"a": (64, 64, 3, 3), "b": (64, 64, 3, 3), "c": (10, 64)}
    weights = {n: 0.05 * rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["h"], pads=[1] * 4),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["k"], pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["k"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "c"], ["y"], transB=1),
    ]
    image, result = (
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", [8, 64, 28, 28]), ("y", [8, 10]))
    )
    graph = helper.make_graph(
        nodes,
        "net",
        [image],
        [result],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    artifact = odtc.compile(tmp_path / "net.onnx", batch=8, loss="cross-entropy")
    (said,) = (note for note in artifact.manifest.notes if "Winograd" in note)
    count, _, names = said.partition(" kernels in Winograd's form: ")
    assert len(names.split(", ")) == int(count)
    assert any("data_gradient" in name for name in names.split(", "))
    assert any(name.startswith("fused_convolution") for name in names.split(", "))
