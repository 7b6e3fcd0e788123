"""Kernels of images with their channels last, over drawn shapes, against PyTorch and numpy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.channels_last import depthwise as depthwise_last
from odtc.backends.kernels.channels_last import pool as pool_last
from odtc.backends.kernels.channels_last.batch_norm import batch_norm_last, batch_norm_last_gradient
from odtc.backends.kernels.channels_last.concat import concat_last
from odtc.backends.kernels.channels_last.relayout import relayout
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.pool.avg_pool2d import avg_pool2d, avg_pool2d_gradient
from odtc.backends.kernels.pool.max_pool2d import max_pool2d, max_pool2d_gradient
from odtc.backends.kernels.pool.planes import Window
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.write_products import WriteProducts
from odtc.core.ir.layouts import LAST, SECOND, permuted
from odtc.dialect.elements.pointwise import relu6
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

MACHINES = [machine_of(bits) for bits in (128, 256, 512)]
# A cache so small that the sums of a weight's gradient are cut into blocks of pixels.
MACHINES.append(replace(machine_of(128), cache_bytes=1 << 9))
IDS = ["neon", "avx2", "avx-512", "tiny"]
EPSILON, MOMENTUM = 1e-5, 0.25
SIZE = st.integers(1, 13)


def last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1))


def second(array: np.ndarray) -> np.ndarray:
    return array.transpose(0, 3, 1, 2)


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@settings(max_examples=examples(20), deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 70), SIZE, SIZE),
    to=st.sampled_from([LAST, SECOND]),
    lanes=st.sampled_from([4, 16]),
    dtype=st.sampled_from(["float32", "float16", "uint8", "bool"]),
)
# Channels that are woven into pixels.
@example(shape=(2, 3, 9, 13), to=LAST, lanes=16, dtype="float32")
@example(shape=(2, 3, 8, 12), to=SECOND, lanes=4, dtype="float32")
@example(shape=(2, 48, 8, 12), to=LAST, lanes=16, dtype="uint8")
@example(shape=(2, 48, 8, 12), to=SECOND, lanes=16, dtype="bool")
# Rows of a copy in several tasks, of which the last reaches back.
@example(shape=(2, 67, 9, 13), to=LAST, lanes=4, dtype="float32")
@example(shape=(2, 131, 5, 3), to=SECOND, lanes=4, dtype="float32")
def test_copies(shape: tuple[int, ...], to: str, lanes: int, dtype: str) -> None:
    (images,) = drawn(shape)
    images = (8 * images).astype("int8").astype(dtype) if dtype in ("uint8", "bool") else images
    images = images.astype(dtype)
    given, wanted = (images, last(images)) if to == LAST else (last(images), images)
    (found,) = run_guarded(relayout(list(given.shape), to, lanes, dtype), [given])
    assert found.shape == permuted(given.shape, to)
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=examples(10), deadline=None)
@given(
    pixels=st.tuples(st.integers(1, 3), SIZE, SIZE),
    counts=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    lanes=st.sampled_from([4, 16]),
)
def test_concats(pixels: tuple[int, ...], counts: list[int], lanes: int) -> None:
    shapes = [(*pixels, count) for count in counts]
    images = drawn(*shapes)
    images[0] = images[0].astype("float16")
    kinds = [str(image.dtype) for image in images]
    (found,) = run_guarded(concat_last(shapes, kinds, "float32", lanes), images)
    np.testing.assert_array_equal(found, np.concatenate(images, -1))


@pytest.mark.parametrize("activation", ["", "relax.nn.relu", relu6.name])
@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(matrix=st.tuples(st.integers(1, 150), st.integers(1, 70)))
# Enough work for several threads, and pixels that do not divide among eight of them.
@example(matrix=(1100, 33))
@example(matrix=(1099, 19))
def test_batch_normalisation(lanes: int, activation: str, matrix: tuple[int, int]) -> None:
    x, dy, gamma, beta, mean, var = drawn(matrix, matrix, *[(matrix[1],)] * 4)
    var = np.abs(var) + 0.5
    y, new_mean, new_var, kept_mean, scale = run_guarded(
        batch_norm_last(matrix, EPSILON, MOMENTUM, lanes, activation, correction=1.5),
        [x, gamma, beta, mean, var],
        results=5,
    )
    wide = x.astype(np.float64)
    now_mean, now_var = wide.mean(0), wide.var(0)
    root = np.sqrt(now_var + EPSILON)
    normal = (wide - now_mean) * (gamma / root) + beta
    bounds = {"": (-np.inf, np.inf), "relax.nn.relu": (0, np.inf), relu6.name: (0, 6)}
    room = 1e-5 * (1 + np.abs(gamma / root).max())
    np.testing.assert_allclose(y, np.clip(normal, *bounds[activation]), rtol=1e-4, atol=room)
    np.testing.assert_allclose(kept_mean, now_mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scale, 1 / root, rtol=1e-4)
    for new, old, now in ((new_mean, mean, now_mean), (new_var, var, 1.5 * now_var)):
        moved = (1 - MOMENTUM) * old + MOMENTUM * now
        np.testing.assert_allclose(new, moved, rtol=1e-5, atol=1e-6)
    dx, dgamma, dbeta = run_guarded(
        batch_norm_last_gradient(matrix, "float32", lanes),
        [dy, x, gamma, kept_mean, scale],
        results=3,
    )
    distance = (wide - now_mean) / root
    along = (dy * distance).sum(0)
    rest = dy - dy.sum(0) / matrix[0] - distance * along / matrix[0]
    np.testing.assert_allclose(dbeta, dy.sum(0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(dgamma, along, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(dx, gamma / root * rest, rtol=1e-3, atol=100 * room)


@pytest.mark.parametrize("matrix", [(96, 19), (1099, 33)])
def test_the_variance_of_numbers_far_from_zero_is_exact(matrix: tuple[int, int]) -> None:
    x, *rest = drawn(matrix, *[(matrix[1],)] * 4)
    x += 1000
    _, _, _, mean, scale = run_guarded(
        batch_norm_last(matrix, EPSILON, MOMENTUM, 16), [x, *rest], results=5
    )
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6)
    np.testing.assert_allclose(scale, 1 / np.sqrt(wide.var(0) + EPSILON), rtol=1e-4)


@st.composite
def depthwise(draw) -> dict:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    return {
        "batch": draw(st.integers(1, 3)),
        "channels": draw(st.integers(1, 70)),
        "image": (draw(st.integers(5, 13)), draw(st.integers(5, 13))),
        "kernel": draw(pair),
        "stride": draw(pair),
        "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "pad": draw(st.tuples(st.integers(0, 2), st.integers(0, 2))),
    }


@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(case=depthwise())
def test_depthwise_convolutions(lanes: int, case: dict) -> None:
    batch, channels = case["batch"], case["channels"]
    x, w = drawn((batch, channels, *case["image"]), (channels, 1, *case["kernel"]))
    image, weight = (torch.tensor(array, requires_grad=True) for array in (x, w))
    steps = {"stride": case["stride"], "dilation": case["dilation"], "padding": case["pad"]}
    y = torch.nn.functional.conv2d(image, weight, groups=channels, **steps)
    (dy,) = drawn(tuple(y.shape))
    dx, dw = torch.autograd.grad(y, (image, weight), torch.tensor(dy))
    out = int(y.shape[2]), int(y.shape[3])
    window = Window(
        case["image"], out, case["kernel"], case["stride"], case["dilation"], case["pad"]
    )
    options = (batch, channels, window, lanes, "float32", "float32")
    (found,) = run_guarded(depthwise_last.forward(*options), [last(x), w])
    np.testing.assert_allclose(second(found), y.detach().numpy(), rtol=1e-4, atol=1e-4)
    (found,) = run_guarded(depthwise_last.data_gradient(*options), [last(dy), w])
    np.testing.assert_allclose(second(found), dx.numpy(), rtol=1e-4, atol=1e-4)
    (found,) = run_guarded(depthwise_last.weight_gradient(*options), [last(x), last(dy)])
    np.testing.assert_allclose(found, dw.numpy(), rtol=1e-3, atol=1e-3)


@st.composite
def pooling(draw) -> dict:
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return {
        "sizes": (draw(st.integers(1, 3)), draw(st.integers(1, 40))),
        "image": (draw(st.integers(5, 13)), draw(st.integers(5, 13))),
        "kernel": kernel,
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "pad": tuple(draw(st.integers(0, size // 2)) for size in kernel),
    }


def window_of(case: dict) -> Window:
    """How a pooling's window walks."""
    keys = ("image", "kernel", "stride", "dilation", "pad")
    sizes = zip(*(case[key] for key in keys), strict=True)
    out = tuple(
        (size + 2 * pad - (taps - 1) * gap - 1) // stride + 1
        for size, taps, stride, gap, pad in sizes
    )
    image, *rest = (case[key] for key in keys)
    return Window(image, out, *rest)


@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(case=pooling(), rectifies=st.booleans(), with_nan=st.booleans())
def test_max_pooling(lanes: int, case: dict, rectifies: bool, with_nan: bool) -> None:
    window, sizes = window_of(case), case["sizes"]
    (x,) = drawn((*sizes, *window.image))
    # Ties, of which the first one wins.
    x = np.round(x)
    if with_nan:
        x[0, 0, 2, 2:4] = np.nan
    y, chosen = run_guarded(max_pool2d(sizes, window, lanes, rectifies=rectifies), [x], results=2)
    found = run_guarded(
        pool_last.max_pool(sizes, window, lanes, rectifies=rectifies), [last(x)], results=2
    )
    np.testing.assert_array_equal(second(found[0]), y)
    np.testing.assert_array_equal(second(found[1]), chosen)
    (dy,) = drawn(y.shape)
    (dx,) = run_guarded(max_pool2d_gradient(sizes, window, lanes), [dy, chosen])
    (found_dx,) = run_guarded(
        pool_last.max_pool_gradient(sizes, window, lanes), [last(dy), found[1]]
    )
    np.testing.assert_allclose(second(found_dx), dx, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(case=pooling(), with_padding=st.booleans())
def test_average_pooling(lanes: int, case: dict, with_padding: bool) -> None:
    window, sizes = window_of({**case, "dilation": (1, 1)}), case["sizes"]
    (x,) = drawn((*sizes, *window.image))
    options = (sizes, window, lanes, "float32", with_padding)
    (y,) = run_guarded(avg_pool2d(*options), [x])
    (found,) = run_guarded(pool_last.avg_pool(*options), [last(x)])
    np.testing.assert_allclose(second(found), y, rtol=1e-5, atol=1e-6)
    (dy,) = drawn(y.shape)
    (dx,) = run_guarded(avg_pool2d_gradient(*options), [dy])
    (found,) = run_guarded(pool_last.avg_pool_gradient(*options), [last(dy)])
    np.testing.assert_allclose(second(found), dx, rtol=1e-5, atol=1e-5)


def point_kernel(
    call: relax.Call, arguments: list[relax.Var], machine: Machine
) -> tvm.tirx.PrimFunc:
    """The kernel of one operator."""
    builder = relax.BlockBuilder()
    with builder.function("main", arguments):
        with builder.dataflow():
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps(convolution_rules())(builder.finalize())
    module = WriteProducts(machine, CPU_LOOPS).run(module)
    (kernel,) = [f for f in module.functions.values() if not isinstance(f, relax.Function)]
    return kernel


@pytest.mark.parametrize("machine", MACHINES, ids=IDS)
@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 70), SIZE, SIZE),
    filters=st.integers(1, 70),
)
# Sums in blocks of pixels, of either operand in panels; channels that fill no vector.
@example(sizes=(2, 48, 12, 12), filters=20)
@example(sizes=(2, 20, 12, 12), filters=48)
@example(sizes=(1, 3, 2, 2), filters=2)
def test_convolutions_of_one_tap(machine: Machine, sizes: tuple[int, ...], filters: int) -> None:
    batch, channels, *image = sizes
    x, w, dy = drawn(sizes, (filters, channels, 1, 1), (batch, filters, *image))
    variables = {
        name: relax.Var(name, relax.TensorType(array.shape, "float32"))
        for name, array in (("x", last(x)), ("w", w), ("dy", last(dy)))
    }
    nn = relax.op.nn
    images = {"data_layout": LAST, "out_layout": LAST}
    samples = {"data_layout": "CHWN", "kernel_layout": "IHWO", "out_layout": "CNHW"}
    cases = [
        (nn.conv2d, "x", "w", images | {"kernel_layout": "OIHW"}),
        (nn.conv2d_transpose, "dy", "w", images | {"kernel_layout": "IOHW"}),
        (nn.conv2d, "x", "dy", samples),
    ]
    arrays = {"x": last(x), "w": w, "dy": last(dy)}
    matrix = w[:, :, 0, 0]
    wanted = [
        last(np.einsum("nchw,mc->nmhw", x, matrix)),
        last(np.einsum("nmhw,mc->nchw", dy, matrix)),
        np.einsum("nchw,nmhw->mc", x, dy)[..., None, None],
    ]
    for (operator, left, right, layouts), values in zip(cases, wanted, strict=True):
        read = [variables[left], variables[right]]
        kernel = point_kernel(operator(*read, **layouts), read, machine)
        (found,) = run_guarded(kernel, [arrays[left], arrays[right]])
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-3)


@st.composite
def windows(draw) -> dict:
    """A convolution whose stride or dilation is one, as its gradient wants it."""
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    gaps = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 2)]))
    return {
        "batch": draw(st.integers(1, 3)),
        "channels": draw(st.integers(1, 40)),
        "filters": draw(st.integers(1, 70)),
        "image": (draw(st.integers(5, 13)), draw(st.integers(5, 13))),
        "kernel": draw(pair),
        "stride": (1, 1) if gaps != (1, 1) else draw(pair),
        "dilation": gaps,
        "pad": draw(st.tuples(st.integers(0, 2), st.integers(0, 2))),
    }


def usual(**changed) -> dict:
    """A usual convolution, but for some numbers."""
    sizes = {"batch": 2, "channels": 24, "filters": 40, "image": (9, 9), "kernel": (3, 3)}
    return {**sizes, "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1), **changed}


@pytest.mark.parametrize("machine", MACHINES, ids=IDS)
@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=windows())
@example(case=usual())
# Strides with remainders that no tap reads, and of a window that does not end with the image.
@example(case=usual(kernel=(1, 1), stride=(2, 2), pad=(0, 0), image=(10, 9)))
@example(case=usual(stride=(2, 2), image=(10, 12)))
@example(case=usual(kernel=(7, 7), channels=3, stride=(2, 2), pad=(3, 3), image=(13, 13)))
# More zeros than the window reaches over.
@example(case=usual(kernel=(1, 1), pad=(2, 2)))
def test_convolutions_of_any_window(machine: Machine, case: dict) -> None:
    shapes = (
        (case["batch"], case["channels"], *case["image"]),
        (case["filters"], case["channels"], *case["kernel"]),
    )
    x, w = drawn(*shapes)
    image, weight = (torch.tensor(array, requires_grad=True) for array in (x, w))
    steps = {name: case[name] for name in ("stride", "dilation")}
    y = torch.nn.functional.conv2d(image, weight, padding=case["pad"], **steps)
    (dy,) = drawn(tuple(y.shape))
    dx, dw = torch.autograd.grad(y, (image, weight), torch.tensor(dy))
    arrays = {"x": last(x), "w": w, "dy": last(dy)}
    variables = {
        name: relax.Var(name, relax.TensorType(array.shape, "float32"))
        for name, array in arrays.items()
    }
    forward = {"strides": case["stride"], "dilation": case["dilation"], "padding": case["pad"]}
    reach = [
        (out - 1) * stride + (taps - 1) * gap + 1 - 2 * pad
        for out, stride, taps, gap, pad in zip(
            y.shape[2:], case["stride"], case["kernel"], case["dilation"], case["pad"], strict=True
        )
    ]
    more = {"output_padding": [a - b for a, b in zip(case["image"], reach, strict=True)]}
    swapped = {"strides": case["dilation"], "dilation": case["stride"], "padding": case["pad"]}
    images = {"data_layout": LAST, "out_layout": LAST}
    samples = {"data_layout": "CHWN", "kernel_layout": "IHWO", "out_layout": "CNHW"}
    nn = relax.op.nn
    cases = [
        (nn.conv2d, "x", "w", forward | images | {"kernel_layout": "OIHW"}, y.detach()),
        (
            nn.conv2d_transpose,
            "dy",
            "w",
            forward | more | images | {"kernel_layout": "IOHW"},
            dx,
        ),
        (nn.conv2d, "x", "dy", swapped | samples, dw),
    ]
    for operator, left, right, options, wanted in cases:
        read = [variables[left], variables[right]]
        kernel = point_kernel(operator(*read, **options), read, machine)
        (found,) = run_guarded(kernel, [arrays[left], arrays[right]])
        if wanted is dw:
            found = found[:, :, : case["kernel"][0], : case["kernel"][1]]
        else:
            found = second(found)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-3)
