"""Passes print as text, and a failure names the pass and those before it."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax
from tvm.script import tirx as T  # noqa: N812

from odtc.core.option_text import format_options, parse_options
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


TENSOR = relax.TensorType((4,), "float32")


def step(size: int = 4, body: float = 2.0) -> tvm.IRModule:
    """A call of a kernel for so many elements."""

    @T.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((size,), "float32"), y: T.Buffer((size,), "float32")) -> None:
        for i in range(size):
            y[i] = x[i] * T.float32(body)

    builder, x = relax.BlockBuilder(), relax.Var("x", TENSOR)
    name = builder.add_func(kernel, "kernel")
    with builder.function("step", [x]):
        value = builder.emit(relax.call_tir(name, relax.Tuple([x]), TENSOR))
        builder.emit_func_output(value)
    return builder.get()


def with_kernel(module: tvm.IRModule, other: tvm.IRModule) -> tvm.IRModule:
    """The module with another one's kernel; the Relax function is the same object."""
    changed = module.clone()
    changed.update_func(module.get_global_var("kernel"), other["kernel"])
    return changed


def checks_of(modules: list[tvm.IRModule], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether types were checked after each of the modules."""
    found: list[bool] = []
    whole = relax.analysis.well_formed

    def kept(module: tvm.IRModule, check_ty: bool = True) -> None:
        found.append(check_ty)
        whole(module, check_ty)

    monkeypatch.setattr(relax.analysis, "well_formed", kept)
    run_pipeline([Given(each) for each in modules], modules[0])
    return found


def test_types_are_checked_again_where_they_may_be_others(monkeypatch: pytest.MonkeyPatch) -> None:
    first = step()
    scheduled = with_kernel(first, step(body=3.0))
    assert checks_of([first, scheduled, scheduled], monkeypatch) == [True, False, False]
    assert checks_of([first, step(), first], monkeypatch) == [True, True, True]
    assert checks_of([first, with_kernel(first, step(size=5))], monkeypatch) == [True, True]


@given(name=WORD, options=st.dictionaries(WORD, VALUE, max_size=4))
def test_options_read_back_as_they_were_written(name: str, options: dict[str, str]) -> None:
    assert parse_options(format_options(name, options)) == (name, options)


@pytest.mark.parametrize(
    "text", ["", "a{", "a{}", "a{b}", "a{b=}", "a{=b}", "a{b=1,b=2}", "a{b=1}c", "a{b=1,}"]
)
def test_malformed_options_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"of the form|twice"):
        parse_options(text)
