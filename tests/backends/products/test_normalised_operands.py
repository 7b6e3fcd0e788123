"""Convolutions normalise an image as they read it: to the bit as if it were so in memory."""

import numpy as np
import pytest
import tvm
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.relax import op as R  # noqa: N812

from odtc.autoschedule.table import schedule_passes
from odtc.backends.lowering import build, to_kernels
from odtc.backends.targets import parse_target
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.elements.pointwise import relu6
from odtc.dialect.images.batch_norm import ACTIVATIONS, normalised
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.frontend.gradients.table import register_gradients
from odtc.passes.ir.bindings import bindings_of
from tests.fast import examples, fast_if

TARGET = parse_target("host-cpu{threads=1}").resolved()

PLAIN: dict = {
    "shape": (2, 5, 9, 7),
    "weight": (6, 5, 3, 3),
    "groups": 1,
    "stride": (1, 1),
    "pad": (1, 1),
    "activation": "relax.nn.relu",
    "around": (0, 0),
}
# Convolutions of one tap whose operands are both packed, with and without steps.
POINT = PLAIN | {"shape": (2, 20, 6, 6), "weight": (24, 20, 1, 1), "pad": (0, 0)}
POINT_STEPS = POINT | {"stride": (2, 2)}
# Channels and filters with which the weight's gradient copies the image in panels.
SWAPPED = POINT | {"shape": (2, 16, 6, 6), "weight": (32, 16, 1, 1)}
DEPTHWISE = PLAIN | {"shape": (2, 4, 9, 7), "weight": (4, 1, 3, 3), "groups": 4, "stride": (2, 2)}
GROUPED = PLAIN | {"shape": (2, 6, 9, 7), "weight": (4, 3, 3, 3), "groups": 2}
SLICED = PLAIN | {"around": (2, 3)}


@st.composite
def cases(draw: st.DrawFn) -> dict:
    """Plain, grouped and depthwise convolutions, of all or some channels of a tensor."""
    small = st.integers(1, 3)
    width, groups = draw(st.sampled_from([(1, 3), (2, 2), (5, 1), (17, 1)]))
    return {
        "shape": (draw(small), groups * width, draw(st.integers(3, 12)), draw(st.integers(3, 12))),
        "weight": (groups * draw(st.sampled_from([1, 2, 17])), width, draw(small), draw(small)),
        "groups": groups,
        "stride": (draw(small), draw(small)),
        "pad": (draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        "activation": draw(st.sampled_from(["", *ACTIVATIONS])),
        "around": draw(st.sampled_from([(0, 0), (0, 2), (3, 1)])),
    }


def weight_gradient(case: dict) -> relax.Call:
    """As the gradient of a step says it, of the image `x` and the adjoint `dy`."""
    x, w = (
        relax.Var(name, relax.TensorType(case[key], "float32"))
        for name, key in (("x", "shape"), ("w", "weight"))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            loss = builder.emit_output(R.sum(builder.emit(convolution(case, x, w))))
        builder.emit_func_output(loss)
    register_gradients()
    made = relax.transform.Gradient("main", require_grads=[w])(builder.finalize())
    (found,) = (
        binding.value
        for binding in bindings_of(made["main_adjoint"])
        if operator_of(binding.value) == grouped_weight_gradient.name
        or (
            operator_of(binding.value) == "relax.nn.conv2d"
            and str(binding.value.attrs.data_layout) == "CNHW"
        )
    )
    return found


def convolution(case: dict, x: relax.Expr, w: relax.Expr) -> relax.Call:
    return R.nn.conv2d(
        x, w, strides=list(case["stride"]), padding=[*case["pad"] * 2], groups=case["groups"]
    )


def module_of(case: dict, stored: str) -> tvm.IRModule:
    """Convolution and weight's gradient, of what is read normalised, and of the same in memory."""
    batch, channels, *image = case["shape"]
    before, behind = case["around"]
    gradient = weight_gradient(case)
    shapes = {
        "x": (batch, before + channels + behind, *image),
        **dict.fromkeys(("mean", "gamma", "scale", "beta"), (channels,)),
        "w": case["weight"],
        "dy": [int(size) for size in gradient.args[1].ty.shape],
    }
    given = {
        name: relax.Var(name, relax.TensorType(shape, stored if name == "x" else "float32"))
        for name, shape in shapes.items()
    }
    data, *numbers, w, dy = given.values()
    builder = relax.BlockBuilder()
    with builder.function("main", list(given.values())):
        with builder.dataflow():
            if stored != "float32":
                data = builder.emit(R.astype(data, "float32"))
            if before + behind:
                data = builder.emit(R.strided_slice(data, [1], [before], [before + channels]))
            read = normalised(data, *numbers, activation=case["activation"])
            found = []
            # What is multiplied by one is the same, but no kernel looks through it.
            for image in (
                builder.emit(read),
                builder.emit(R.multiply(builder.emit(read), relax.const(np.float32(1)))),
            ):
                found.append(builder.emit(convolution(case, image, w)))
                found.append(builder.emit(relax.Call(gradient.op, [image, dy], gradient.attrs)))
            result = builder.emit_output(relax.Tuple(found))
        builder.emit_func_output(result)
    return builder.finalize()


def arrays_of(module: tvm.IRModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.uniform(0.5, 2, [int(size) for size in each.ty.shape]).astype(str(each.ty.dtype))
        - (1 if each.name in ("x", "w", "dy") else 0)
        for each in module["main"].params
    ]


def expected(case: dict, arrays: list[np.ndarray]) -> np.ndarray:
    """Returns the convolved operand, with zeros around it."""
    x, mean, gamma, scale, beta = (
        each.astype(np.float64).reshape(-1, 1, 1) if each.ndim == 1 else each.astype(np.float64)
        for each in arrays[:5]
    )
    first = case["around"][0]
    y = (x[:, first : first + case["shape"][1]] - mean) * gamma * scale + beta
    low = 0 if case["activation"] else -np.inf
    y = np.clip(y, low, 6 if case["activation"] == relu6.name else np.inf)
    return np.pad(y, [(0, 0), (0, 0), *((each, each) for each in case["pad"])])


@pytest.mark.parametrize("stored", fast_if("float32".__eq__, ["float32", "float16"]))
@settings(max_examples=examples(6), deadline=None)
@given(case=cases())
@example(case=POINT)
@example(case=POINT_STEPS)
@example(case=SWAPPED)
@example(case=DEPTHWISE)
@example(case=GROUPED)
@example(case=SLICED)
def test_the_same_bits(stored: str, case: dict) -> None:
    sizes = zip(case["shape"][2:], case["weight"][2:], case["pad"], strict=True)
    assume(all(size + 2 * pad >= taps for size, taps, pad in sizes))
    module = module_of(case, stored)
    arrays = arrays_of(module)
    executable = build(module, TARGET, None, schedule_passes(TARGET)).executable
    machine = relax.VirtualMachine(executable, tvm.cpu())
    read, gradient, *of_memory = (
        each.numpy() for each in machine["main"](*map(tvm.runtime.tensor, arrays))
    )
    np.testing.assert_array_equal(read, of_memory[0])
    np.testing.assert_array_equal(gradient, of_memory[1])
    # The first output, said once more.
    filters = case["weight"][0] // case["groups"]
    image, w = expected(case, arrays), arrays[5].astype(np.float64)
    taps = image[:, : w.shape[1], : w.shape[2], : w.shape[3]]
    first = np.einsum("ncij,fcij->nf", taps, w[:filters])
    np.testing.assert_allclose(read[:, :filters, 0, 0], first, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("case", [SLICED, DEPTHWISE | {"around": (1, 1)}])
def test_kernels_take_the_tensor_as_it_lies(case: dict) -> None:
    """Half of the kernels read some channels of it; the others what one kernel makes of these."""
    module = to_kernels(module_of(case, "float16"), TARGET, None, schedule_passes(TARGET))
    kernels = [each for _, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]
    reading = [each for each in kernels if str(each.params[0].dtype) == "float16"]
    assert len(kernels) == 5
    # Five tensors for the image, the other operand, the result; no other operand, and one.
    assert sorted(len(each.params) for each in reading) == [6, 7, 7]
