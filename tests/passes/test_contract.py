"""Passes print as text, and a failure names the pass and those before it."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

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


@given(name=WORD, options=st.dictionaries(WORD, VALUE, max_size=4))
def test_options_read_back_as_they_were_written(name: str, options: dict[str, str]) -> None:
    assert parse_options(format_options(name, options)) == (name, options)


@pytest.mark.parametrize(
    "text", ["", "a{", "a{}", "a{b}", "a{b=}", "a{=b}", "a{b=1,b=2}", "a{b=1}c", "a{b=1,}"]
)
def test_malformed_options_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"of the form|twice"):
        parse_options(text)
