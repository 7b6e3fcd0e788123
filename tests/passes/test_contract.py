"""Passes print as text, and a failure names the pass and those before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax
from tvm.script import tirx as T  # noqa: N812

import odtc
from benchmarks.models.digits import digits_model
from odtc.backends.kernels.common import parsed
from odtc.core.errors import UnsupportedError
from odtc.core.options.option_text import format_options, parse_options
from odtc.passes import contract
from odtc.passes.contract import Pass, PassError, run_pipeline, tvm_passes

WORD = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
VALUE = st.from_regex(r"[A-Za-z0-9.+_-]{1,8}", fullmatch=True)


@dataclass(frozen=True)
class Broken(Pass):
    name: ClassVar[str] = "broken"
    depth: int = 3

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        raise ValueError("no luck")


def test_text_of_a_pass_names_its_options() -> None:
    assert str(Broken(depth=5)) == "broken{depth=5}"


def test_failure_names_the_pass_and_those_before() -> None:
    passes = (*tvm_passes(relax.transform.Normalize), Broken())
    with pytest.raises(PassError) as failure:
        run_pipeline(passes, tvm.IRModule({}))
    text = str(failure.value)
    assert "pass broken{depth=3} failed (passes before it: tvm.Normalize)" in text
    assert "no luck" in text


@dataclass(frozen=True)
class Given(Pass):
    """Gives a module that was made before."""

    name: ClassVar[str] = "given"
    module: tvm.IRModule

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        return self.module


@dataclass(frozen=True)
class Same(Pass):
    """Changes nothing."""

    name: ClassVar[str] = "same"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        return module


TENSOR = relax.TensorType((4,), "float32")


def step(size: int = 4, body: float = 2.0) -> tvm.IRModule:
    """A call of a kernel for so many elements."""

    @parsed.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((size,), "float32"), y: T.Buffer((size,), "float32")) -> None:
        for i in range(size):
            y[i] = x[i] * T.float32(body)

    builder, x = relax.BlockBuilder(), relax.Var("x", TENSOR)
    name = builder.add_func(kernel, "kernel")
    with builder.function("step", [x]):
        value = builder.emit(relax.call_tir(name, relax.Tuple([x]), TENSOR))
        builder.emit_func_output(value)
    return builder.get()


def wrongly_typed() -> tvm.IRModule:
    """A step with a variable that is said to be larger than its value."""
    builder, x = relax.BlockBuilder(), relax.Var("x", TENSOR)
    larger = relax.Var("larger", relax.TensorType((5,), "float32"))
    value = builder.normalize(relax.op.add(x, x))
    block = relax.BindingBlock([relax.VarBinding(larger, value)])
    return tvm.IRModule({"step": relax.Function([x], relax.SeqExpr([block], larger), larger.ty)})


def test_the_last_module_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    whole = contract.verify

    def kept(module: tvm.IRModule, *, types: bool) -> None:
        found.append(types)
        whole(module, types=types)

    monkeypatch.setattr(contract, "verify", kept)
    run_pipeline([Given(step()) for _ in range(3)], step())
    assert found == [True]
    run_pipeline([Given(wrongly_typed())], step(), types=False)
    assert found == [True, False]


def test_a_refusal_is_not_asked_for_again() -> None:
    asked = []

    @dataclass(frozen=True)
    class Refusing(Pass):
        name: ClassVar[str] = "refusing"

        def run(self, module: tvm.IRModule) -> tvm.IRModule:
            asked.append(module)
            raise UnsupportedError("not that")

    with pytest.raises(UnsupportedError, match="not that"):
        run_pipeline([Refusing()], step())
    assert len(asked) == 1


def test_wrong_types_name_the_pass_that_made_them() -> None:
    passes = (*tvm_passes(relax.transform.Normalize), Given(step()), Given(wrongly_typed()), Same())
    # The second of those that give a module, not what came after it.
    wanted = r"(?s)pass given.* failed \(passes before it: tvm.Normalize, given.*cannot be assigned"
    with pytest.raises(PassError, match=wanted):
        run_pipeline(passes, step())


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("host-cpu", {"optimizer": "adamw"}),
        ("host-cpu", {"memory_budget": "auto", "micro_batches": 2}),
        ("host-cpu", {"layout": "cheapest", "train": "*weight"}),
        ("android-cpu", {"precision": "mixed"}),
        ("android-opencl", {"optimizer": "adamw"}),
        ("android-vulkan", {"memory_budget": "4MiB"}),
    ],
)
def test_each_module_of_a_compile_is_well_formed(
    target: str, options: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later pass might mend what one leaves wrong; after the last one that is not seen."""
    run = contract._run
    checked: list[int] = []

    def each(passes: Sequence[Pass], module: tvm.IRModule, **_: bool) -> tvm.IRModule:
        checked.append(len(passes))
        return run(passes, module, verified=True)

    monkeypatch.setattr(contract, "_run", each)
    onnx.save(digits_model(), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", target, batch=2, **options)
    assert sum(checked) > 30


@given(name=WORD, options=st.dictionaries(WORD, VALUE, max_size=4))
def test_options_read_back_as_they_were_written(name: str, options: dict[str, str]) -> None:
    assert parse_options(format_options(name, options)) == (name, options)


@pytest.mark.parametrize(
    "text", ["", "a{", "a{}", "a{b}", "a{b=}", "a{=b}", "a{b=1,b=2}", "a{b=1}c", "a{b=1,}"]
)
def test_malformed_options_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"of the form|twice"):
        parse_options(text)
