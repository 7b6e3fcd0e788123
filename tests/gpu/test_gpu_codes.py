"""Products on a GPU whose right operand is dequantised as it is copied, over drawn shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tvm import relax

import odtc
from odtc.backends.gpu.coded.codes import codes_at_once
from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.kernels.common.quantised import Quantisation, Quantised
from odtc.backends.spirv.assemble import Shader
from odtc.backends.write_products import write_product
from odtc.dialect.elements.dequantised import AS_IT_IS, BFLOAT16, NIBBLES
from tests.backends.products.quantised_matrix import Matrix, drawn, product_with
from tests.fast import examples
from tests.gpu.on_device import KINDS, run_kernel
from tests.gpu.spirv.spirv_tools import check_valid
from tests.numeric.plans.frozen_costs import model_of, plan_of

MACHINES = {"phone": PHONE, "large": LARGE}
FORMS = ((AS_IT_IS, "int8"), (AS_IT_IS, "uint8"), (NIBBLES, "uint8"), (BFLOAT16, "uint16"))
# Rows of whole words, and of none; no tile and no slice is whole.
SHAPES = ((64, 96), (61, 36), (36, 140), (48, 78), (61, 35))


def multiplied(kind: str, matrix: Matrix, a: np.ndarray, turned: bool, gpu: Gpu) -> np.ndarray:
    with tvm.target.Target(kind):
        kernel = write_product(product_with(matrix, a, turned), gpu, GPU_LOOPS)
    columns = matrix.values.shape[0 if turned else 1]
    arrays = [a, matrix.codes, matrix.zero, matrix.scale]
    named = kernel.with_attr("global_symbol", "main")
    return run_kernel(kind, named, arrays, (a.shape[0], columns))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    form=st.sampled_from(FORMS),
    rows=st.integers(1, 70),
    lies=st.tuples(st.sampled_from(SHAPES), st.booleans()),
    blocks=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    gpu=st.tuples(
        st.sampled_from(sorted(MACHINES)),
        st.sampled_from([{}, {"slice": (4,)}, {"slice": (16,)}, {"splits": (3,)}]),
    ),
)
# A scale for each block of a row, or for one of a column; slices that are less than a word.
@example((NIBBLES, "uint8"), 33, ((64, 96), True), (0, 2), ("large", {}))
@example((NIBBLES, "uint8"), 33, ((64, 96), False), (2, 0), ("phone", {}))
@example((NIBBLES, "uint8"), 33, ((64, 96), True), (0, 2), ("phone", {"slice": (4,)}))
@example((AS_IT_IS, "int8"), 20, ((61, 36), False), (0, 3), ("large", {"splits": (3,)}))
def test_values(
    kind: str,
    made: list[Shader],
    form: tuple[str, str],
    rows: int,
    lies: tuple[tuple[int, int], bool],
    blocks: tuple[int, int],
    gpu: tuple[str, dict[str, tuple[int]]],
) -> None:
    (shape, turned), (name, told) = lies, gpu
    choices = [[1, *(d for d in (4, 32) if size % d == 0), size] for size in shape]
    first, second = (
        each[min(which, len(each) - 1)] for each, which in zip(choices, blocks, strict=True)
    )
    matrix = drawn(*form, shape, (first, second))
    a = np.random.default_rng(1).standard_normal((rows, shape[turned]), np.float32)
    machine, _ = MACHINES[name].telling(told)
    found = multiplied(kind, matrix, a, turned, machine)
    expected = a @ (matrix.values.T if turned else matrix.values)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    for shader in made:
        check_valid(shader)
    made.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_equal_runs_give_equal_bits(kind: str) -> None:
    matrix = drawn(NIBBLES, "uint8", (64, 96), (1, 32))
    a = np.random.default_rng(1).standard_normal((20, 96), np.float32)
    gpu, _ = LARGE.telling({"splits": (3,)})
    first, again = (multiplied(kind, matrix, a, True, gpu) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    ("form", "shape", "blocks", "expected"),
    [
        ((NIBBLES, "uint8"), (64, 96), (1, 32), 8),
        ((NIBBLES, "uint8"), (64, 96), (32, 1), 8),
        ((AS_IT_IS, "int8"), (61, 36), (1, 36), 4),
        ((BFLOAT16, "uint16"), (61, 38), (61, 38), 2),
        # Blocks that end within a word, and rows that do.
        ((NIBBLES, "uint8"), (64, 96), (1, 4), 1),
        ((NIBBLES, "uint8"), (64, 92), (1, 92), 1),
        ((AS_IT_IS, "int8"), (61, 35), (1, 35), 1),
    ],
)
def test_codes_are_read_in_words_where_rows_and_blocks_are_of_whole_ones(
    form: tuple[str, str], shape: tuple[int, int], blocks: tuple[int, int], expected: int
) -> None:
    call = drawn(*form, shape, blocks).call
    codes, zero, scale = map(_buffer, call.args)
    quantisation = Quantisation.of(form[0], [*shape, *blocks])
    assert codes_at_once(Quantised(codes, zero, scale, quantisation)) == expected


def test_a_chain_behind_codes_has_no_more_buffers_than_a_gpu_takes(tmp_path: Path) -> None:
    """A product of codes reads four tensors, and each sum behind it one more."""
    sums = "".join(f"s{n + 1} = Add (s{n}, x{n}) " for n in range(16))
    feeds = ", ".join(f"float[4, 32] x{n}" for n in range(16))
    rng = np.random.default_rng(0)
    tensors = {
        "q": rng.integers(-8, 8, (32, 32)).astype(np.int8),
        "s": np.float32(0.1).reshape(()),
        "p": np.ones(32, np.float32),
    }
    text = f"w = DequantizeLinear (q, s) i = Mul (x, p) s0 = MatMul (i, w) {sums}"
    ends = f"(float[4, 32] x, {feeds}) => (float[4, 32] s16)"
    onnx.save(model_of(ends, text, tensors), tmp_path / "m.onnx")
    plan_of(tmp_path / "m.onnx", "android-vulkan{gpu=mali-g76}", loss="mse", train=["p"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_is_planned_over_codes(kind: str, tmp_path: Path) -> None:
    """What kernels cost is counted; that of codes has addresses of words."""
    layers = "".join(
        f"m{n} = MatMul (h{n}, w) b{n} = Add (m{n}, p) h{n + 1} = Tanh (b{n}) " for n in range(4)
    )
    rng = np.random.default_rng(0)
    tensors = {
        "q": rng.integers(-8, 8, (32, 32)).astype(np.int8),
        "s": np.float32(0.1).reshape(()),
        "p": np.ones(32, np.float32),
    }
    text = f"w = DequantizeLinear (q, s) h0 = Add (x, p) {layers}"
    onnx.save(model_of("(float[64, 32] x) => (float[64, 32] h4)", text, tensors), tmp_path / "m")
    options: dict[str, Any] = {"loss": "mse", "train": ["p"]}
    most = plan_of(tmp_path / "m", f"host-{kind}", **options).arena_bytes - 1
    found = odtc.compile(tmp_path / "m", f"host-{kind}", **options, memory_budget=most)
    assert found.memory.arena_bytes <= most


def _buffer(tensor: relax.Expr) -> tvm.tirx.Buffer:
    return tvm.tirx.decl_buffer([int(size) for size in tensor.ty.shape], str(tensor.ty.dtype))
