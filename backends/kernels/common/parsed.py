"""Kernels that are written in TVMScript, parsed without a look at all that calls them.

It is used as `parsed.prim_func`: the parser knows the decorator by the name after a dot.
"""

from collections.abc import Callable
from typing import Any

from tvm.script import tirx as T  # noqa: N812  # pyright: ignore[reportMissingModuleSource]
from tvm.script.parser._core import parse, utils


def prim_func(*, private: bool, s_tir: bool) -> Callable[[Callable[..., Any]], Any]:
    """As TVM's decorator of that name, for functions whose annotations are no text.

    TVM's reads the source of every function that is being called then, twice, for names that only
    the text of an annotation has: with PyTorch in the process that takes a tenth of a second.

    Args:
        private: whether the kernel has no name outside its module; the parser reads it off.
        s_tir: whether it can be scheduled; the parser reads it off, too.
    """
    del private, s_tir

    def read(function: Callable[..., Any]) -> Any:
        return parse(function, utils.inspect_function_capture(function))

    # By it the parser, which evaluates decorators, knows what dialect the function is in.
    read.dispatch_token = T.prim_func.dispatch_token  # type: ignore[attr-defined]
    return read
