"""Inner loops of the packed products for phones, in machine code for a Cortex-A76.

A small net is compiled for the phone, each kernel alone, and the loop of each matrix product is
held to what the core can do: two vectors of four multiply-adds a cycle.
"""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper

from odtc.autoschedule.table import schedule_passes
from odtc.backends.families import family_of
from odtc.backends.kernels.attention.backward import attention_gradient
from odtc.backends.kernels.attention.forward import attention_kernel
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.kernels.recurrent.backward import recurrent_gradient
from odtc.backends.kernels.recurrent.forward import recurrent_kernel
from odtc.backends.kernels.recurrent.parts import RecurrentLayer
from odtc.backends.objects.library import export_library
from odtc.backends.pipeline.phases import fuse_phase
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.frontend.file.specialize import specialize
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import as_update
from odtc.frontend.trained.selection import select
from odtc.frontend.training import build_training_graph
from odtc.passes.contract import run_pipeline
from tests.backends.kernels.machine_code import Instruction, Loop, count, cycles, innermost_loops
from tests.fast import fast_if

TARGET = "android-cpu{mcpu=cortex-a76}"
# LLVM has no table of the A76 and takes that of the A57 for it, which has half its throughput. The
# Neoverse N1 is the same core for servers, and has a table.
MODEL = "neoverse-n1"
PER_CYCLE = 2
BATCH = 16
# Three convolutions and a fully connected layer: the first has no data gradient.
PRODUCTS = 2 + 3 + 3 + 3


def small_net(side: int) -> onnx.ModelProto:
    """Convolutions of 3x3 and 1x1 on images of `side`, and a fully connected layer."""
    rng = np.random.default_rng(0)
    shapes = {"c1": (32, 8, 3, 3), "c2": (48, 32, 3, 3), "c3": (64, 48, 1, 1), "fc": (80, 64)}
    weights = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "c1"], ["h1"], pads=[1] * 4),
        helper.make_node("Relu", ["h1"], ["r1"]),
        helper.make_node("Conv", ["r1", "c2"], ["h2"], pads=[1] * 4),
        helper.make_node("Relu", ["h2"], ["r2"]),
        helper.make_node("Conv", ["r2", "c3"], ["h3"]),
        helper.make_node("Relu", ["h3"], ["r3"]),
        helper.make_node("GlobalAveragePool", ["r3"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "fc"], ["y"], transB=1),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", float32, [BATCH, 8, side, side])],
        [helper.make_tensor_value_info("y", float32, [BATCH, 80])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def step_kernels(model: onnx.ModelProto, *, has_half: bool = False) -> dict[str, tvm.tirx.PrimFunc]:
    """The scheduled kernels of a training step for the phone, by name."""
    target = parse_target(TARGET).resolved()
    graph = specialize(model, BATCH)
    objective = join_losses(graph, terms_of("cross-entropy"))
    selection = select(graph, ("*",), (), False)
    normalize(graph)
    training = build_training_graph(graph, objective, as_update(SGD()), selection)
    with target.to_tvm():
        fuse = fuse_phase(family_of(target, has_half=has_half))
        module = run_pipeline((*fuse, *schedule_passes(target)), training.module)
    functions = {variable.name_hint: function for variable, function in module.functions_items()}
    return {k: f for k, f in functions.items() if isinstance(f, tvm.tirx.PrimFunc)}


def product_loop(kernel: tvm.tirx.PrimFunc) -> Loop | None:
    """The loop of a kernel with the most multiply-adds, if it does little but add them up.

    It stores nothing, but for spills: the sums stay in registers.
    """
    target = parse_target(TARGET).resolved()
    register_vector_math()
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "kernel.so")
        export_library(tvm.compile(module, target.to_tvm()), library, target)
        loops = [loop for loop in innermost_loops(library) if not any(map(is_result, loop))]
    best = max(loops, key=lambda loop: count(loop, "fmla"), default=())
    return best if 2 * count(best, "fmla") > len(vector_arithmetic(best)) else None


def is_result(item: Instruction) -> bool:
    return item.is_store and not item.is_stack


def vector_arithmetic(loop: Loop) -> list[Instruction]:
    return [item for item in loop if item.is_vector_arithmetic]


def listing(name: str, loop: Loop) -> str:
    """Shows in a failure the loop and the share of the peak that it reaches."""
    lines = [f"    {item.name} {item.operands}" for item in loop]
    return "\n".join([f"{name} reaches {share(loop):.0%} of the peak:", *lines])


def share(loop: Loop) -> float:
    """Of the multiply-adds that the core could do in the time of the loop."""
    return count(loop, "fmla") / PER_CYCLE / cycles(loop, MODEL)


def test_the_model_of_the_core_has_its_peak():
    text = [f"v{i}.4s, v{24 + i % 4}.4s, v28.s[{i % 4}]" for i in range(16)]
    loop = tuple(Instruction(4 * i, "fmla", operands) for i, operands in enumerate(text))
    assert share(loop) == pytest.approx(1.0, abs=0.02)
    assert count(loop, "fmla") / cycles(loop, "cortex-a57") == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("name", "operands", "spilled"),
    [
        ("ldr", "q0, [sp, #0x20]", True),
        ("stp", "q0, q1, [x29, #-0x40]", True),
        ("ld1", "{ v0.4s }, [sp], #16", True),
        ("ldr", "x12, [sp, #0x18]", False),
        ("ldr", "q0, [x12]", False),
        ("ldr", "s8, [x29, x9, lsl #2]", False),
        ("vmovups", "%zmm30, 0x50(%rsp)", True),
        ("vfmadd231ps", "0x40(%rsp), %ymm1, %ymm2", True),
        ("vmovups", "(%rbp,%r14,4), %zmm1", False),
        ("vmovups", "0x40(%rsi,%rax,4), %zmm1", False),
        ("movq", "0x40(%rsp), %rax", False),
    ],
)
def test_a_spill_is_a_vector_on_the_stack(name, operands, spilled):
    assert Instruction(0, name, operands).is_spill == spilled


@cache
def products(side: int) -> dict[str, Loop]:
    """The loops of the products of a step, by kernel."""
    loops = {name: product_loop(kernel) for name, kernel in step_kernels(small_net(side)).items()}
    return {name: loop for name, loop in loops.items() if loop is not None}


# 14x14 is 49 vectors of 4, which no tile of several vectors cuts evenly.
SIDES = [16, 14]
FAMILIES = [
    "convolution",
    "data_gradient",
    "weight_gradient",
    "matmul",
]


@pytest.mark.parametrize("side", fast_if(SIDES[0].__eq__, SIDES))
def test_every_product_adds_up_in_a_loop(side):
    assert len(products(side)) == PRODUCTS, list(products(side))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("family", FAMILIES)
def test_products_keep_the_multiply_adders_of_a_cortex_a76_busy(family, side):
    loops = {name: loop for name, loop in products(side).items() if family in name}
    assert loops
    for name, loop in loops.items():
        check_busy(name, loop)


@pytest.mark.parametrize("cell", ["gru-after", "lstm"])
def test_recurrent_products_keep_them_busy(cell):
    """The product of a step, with weights that were packed before."""
    machine, layer = (
        machine_of(parse_target(TARGET).vector_bits),
        RecurrentLayer(cell, 5, BATCH, 64),
    )
    for kernel in (
        recurrent_kernel(layer, machine, saves=True),
        recurrent_gradient(layer, ["float32"] * 3, machine),
    ):
        loop = product_loop(kernel)
        assert loop is not None
        check_busy(cell, loop)


def test_products_of_attention_keep_them_busy():
    """Of scores, and of what is made from them."""
    machine = machine_of(parse_target(TARGET).vector_bits)
    heads = Heads(2, 2, 64, 64, 64, 64, (True,) * 4, (2, 1, 1, 64), 0.125, False, False)
    for kernel in (
        attention_kernel(heads, machine),
        attention_gradient(heads, ["float32"] * 4, machine),
    ):
        loop = product_loop(kernel)
        assert loop is not None
        check_busy("attention", loop)


def test_all_products_of_a_recurrent_layer_add_up_in_a_loop():
    """Its inputs' product stores the sum with the bias."""
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 256, 32), "r": (1, 256, 64), "b": (1, 512), "fc": (1, 64, 10)}
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "last"], hidden_size=64),
            helper.make_node("MatMul", ["last", "fc"], ["scores"]),
            helper.make_node("Squeeze", ["scores", "first"], ["y"]),
        ],
        "recurrent",
        [helper.make_tensor_value_info("x", float32, [BATCH, BATCH, 32])],
        [helper.make_tensor_value_info("y", float32, [BATCH, 10])],
        [
            *(
                numpy_helper.from_array(rng.standard_normal(s, np.float32), n)
                for n, s in shapes.items()
            ),
            numpy_helper.from_array(np.array([0]), "first"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    products = {k: f for k, f in step_kernels(model).items() if "matmul" in k}
    # Of the inputs; of the gradients of both weights; three of the last layer.
    assert len(products) == 1 + 2 + 3, list(products)
    for name, kernel in products.items():
        assert product_loop(kernel) is not None, name


def check_busy(name: str, loop: Loop) -> None:
    shown = listing(name, loop)
    assert not [item for item in loop if item.is_spill], shown
    assert count(loop, "fmla") >= 0.9 * len(vector_arithmetic(loop)), shown
    assert share(loop) >= 0.85, shown
