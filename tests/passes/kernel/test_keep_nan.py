"""Extrema keep what is not a number, in as many instructions as before where that is possible."""

import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import ir, te, tirx

import odtc
from odtc.passes.ir.written_out import size_of
from odtc.passes.kernel.keep_nan import (
    GROWN,
    KeepNan,
    NanGuard,
    by_comparison,
    by_instruction,
    by_question,
    larger_number,
)
from tests.fuzz.corpus import model, node, value

LANES = 8
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -1.5, 2.5], np.float32)
X86 = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake"}
ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
PAIRS = {
    "max": (tirx.max, np.maximum),
    "min": (tirx.min, np.minimum),
    "nested": (
        lambda a, b: tirx.max(tirx.min(a * 2.0, b), a + b),
        lambda a, b: np.maximum(np.minimum(a * 2, b), a + b),
    ),
    "clipped": (
        lambda a, b: tirx.max(tirx.min(a + b, 1.5), -1.5),
        lambda a, b: np.clip(a + b, -1.5, 1.5),
    ),
    # Code generators ask for the range of what is named.
    "condition": (
        lambda a, b: tirx.max(a + (b < a).astype("float32"), 0.0),
        lambda a, b: np.maximum(a + (b < a), 0),
    ),
    "constant in front": (lambda a, b: tirx.max(0.0, a * b), lambda a, b: np.maximum(0, a * b)),
}


def kernel(build: Callable[..., ir.Expr], form: NanGuard | None, size: int = 40) -> tvm.IRModule:
    """A kernel `(a, b, out)` over vectors."""
    a, b = (te.placeholder((size,), "float32", name) for name in "ab")
    out = te.compute((size,), lambda i: build(a[i], b[i]), "out")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([a, b, out]))
    (loop,) = schedule.get_loops(schedule.get_sblock("out"))
    schedule.vectorize(schedule.split(loop, [None, LANES])[1])
    return KeepNan(form).run(schedule.mod) if form else schedule.mod


@pytest.mark.parametrize("form", [by_comparison, by_question], ids=lambda form: form.__name__)
@pytest.mark.parametrize("name", PAIRS)
def test_values(name: str, form: NanGuard) -> None:
    build, expected = PAIRS[name]
    pairs = np.stack(np.meshgrid(SPECIAL, SPECIAL), -1).reshape(-1, 2)
    a, b = np.ones((2, 40), np.float32)
    a[: len(pairs)], b[: len(pairs)] = pairs.T
    out = tvm.runtime.empty((40,), "float32")
    tvm.compile(kernel(build, form), target="llvm")["main"](*map(tvm.runtime.tensor, (a, b)), out)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out.numpy(), expected(a, b))


def arithmetic(module: tvm.IRModule, target: dict[str, Any]) -> list[str]:
    """The vector instructions of a kernel that neither load nor store."""
    made = tvm.compile(module, target=tvm.target.Target(target)).mod
    vectors = re.findall(r"^\t(v?\w+)\t.*(?:%ymm|\.4s|\.16b)", made.inspect_source("asm"), re.M)
    return [name for name in vectors if not re.match(r"v?(mov|broadcast|zero)|dup|ld|st", name)]


@pytest.mark.parametrize(
    ("build", "before", "after"),
    [
        (lambda a, b: tirx.max(a, 0.0), ["vmaxps"], ["vmaxps"]),
        (lambda a, b: tirx.min(a, 6.0), ["vminps"], ["vminps"]),
        (tirx.max, ["vmaxps"], ["vmaxps", "vcmpordps", "vblendvps"]),
        (larger_number, ["vmaxps"], ["vmaxps"]),
    ],
)
def test_instructions_of_x86(build: Any, before: list[str], after: list[str]) -> None:
    """With a constant, as a rectifier has it, there is one, as before."""
    found = (set(arithmetic(kernel(build, form), X86)) for form in (None, by_comparison))
    assert [*found] == [set(before), set(after)]


@pytest.mark.parametrize("other", [lambda b: 0.0, lambda b: b])
def test_instructions_of_arm(other: Callable[[ir.Expr], Any]) -> None:
    found = arithmetic(kernel(lambda a, b: tirx.max(a, other(b)), by_instruction), ARM)
    assert set(found) == {"fmax"}


def _bounded(x: ir.Expr) -> ir.Expr:
    below = tirx.Select(x < 0.0, tirx.const(0.0, "float32"), x)
    return tirx.Select(below > 6.0, tirx.const(6.0, "float32"), below)


def test_bounds_by_choice_are_instructions_of_arm() -> None:
    """As ReLU6 has them: a choice from the other side, or of other values, is none."""
    found = arithmetic(kernel(lambda a, b: _bounded(a), by_instruction), ARM)
    assert set(found) - {"fmov"} == {"fmax", "fmin"}
    zero = tirx.const(0.0, "float32")
    for build in (
        lambda a, b: tirx.Select(a < 1.0, zero, a),
        lambda a, b: tirx.Select(a < 0.0, zero, b),
        lambda a, b: tirx.Select(a <= 0.0, zero, a),
        lambda a, b: tirx.Select(a < b, b, a),
    ):
        module = kernel(build, None)
        tvm.ir.assert_structural_equal(KeepNan(by_instruction).run(module), module)
    module = kernel(lambda a, b: _bounded(a), None)
    for form in (by_comparison, by_question):
        tvm.ir.assert_structural_equal(KeepNan(form).run(module), module)


def test_integers_stay_as_they_are() -> None:
    a = te.placeholder((8,), "int32", "a")
    out = te.compute((8,), lambda i: tirx.max(a[i], 0), "out")
    module = tvm.IRModule({"main": te.create_prim_func([a, out])})
    tvm.ir.assert_structural_equal(KeepNan(by_comparison).run(module), module)


def test_copies_are_counted() -> None:
    """Fused expressions are cut by the size that they grow to."""
    x, y = (tirx.Var(name, "float32") for name in "xy")
    for form in (by_comparison, by_question):
        whole, sizes = tirx.max(x, y), {x: 10, y: 10}
        assert size_of(form(whole), sizes, {}) <= size_of(whole, sizes, GROWN)


@pytest.mark.parametrize("op_type", ["Relu", "Max", "Clip"])
def test_a_chain_of_extrema_compiles(op_type: str, tmp_path: Path) -> None:
    """The operands of an extremum are read several times by each one around it."""
    count, others = 16, {"Relu": "", "Max": " c", "Clip": " low high"}[op_type]
    names = ["x", *(f"h{at}" for at in range(count))]
    nodes = [node(op_type, f"{a}{others}", b) for a, b in pairwise(names)]
    nodes.append(node("MatMul", f"{names[-1]} w", "y"))
    bounds = {"low": np.array(-1, np.float32), "high": np.array(1, np.float32)}
    weights = {"w": (4, 3), "c": np.zeros(4, np.float32), **bounds}
    path = tmp_path / "model.onnx"
    onnx.save(model(nodes, [value("x", ["N", 4])], weights), path)
    began = time.process_time()
    odtc.compile(path, batch=2)
    assert time.process_time() - began < 20
