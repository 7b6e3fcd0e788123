"""What TVM's decorators know of who calls them is what they ask for."""

import inspect

import pytest
import tvm
from tvm.script import ir as I  # noqa: N812
from tvm.script import tirx as T  # noqa: N812

from tests import tvmscript
from tests.calls import calls_of

SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] * T.float32(2)
"""


def test_frames_are_those_of_python() -> None:
    found, expected = [take() for take in (tvmscript.stack, inspect.stack)]
    assert [each.frame for each in found] == [each.frame for each in expected]
    assert found[0].filename == __file__
    assert [each.function for each in found] == [each.function for each in expected]
    read = [(each.code_context, each.index) for each in expected][2]
    assert [(each.code_context, each.index) for each in found][2] == read != (None, None)


def test_a_function_of_a_class_and_one_alone_are_read() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):  # noqa: N805
            for i in range(4):
                y[i] = x[i] * T.float32(2)

    @T.prim_func(private=True)
    def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] * T.float32(2)

    module = tvm.script.from_source(SOURCE)
    tvm.ir.assert_structural_equal(Module, module)
    tvm.ir.assert_structural_equal(Module["double"].body, double.body, map_free_vars=True)


def test_callers_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tvm.script.from_source(SOURCE)
    few = calls_of(lambda: tvm.script.from_source(SOURCE))
    for name in tvmscript.ENTRIES:
        monkeypatch.setattr(f"{name}.inspect", inspect)
    assert calls_of(lambda: tvm.script.from_source(SOURCE)) > 1.5 * few
