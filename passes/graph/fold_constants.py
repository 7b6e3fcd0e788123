"""Folds what depends on constants alone, by kernels that are built once in a process.

TVM's pass asks a global function for each of them, and so LLVM, in every module anew: that was half
of what the compilation of a small model took. Modules have many of them in common: a training step
and its evaluation, and all steps that are looked at for a budget.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir.expr import GenericConst
from tvm.relax import transform as X  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of

# Kernels that are kept; each is some kilobytes of machine code.
_KEPT = 256
# Integers of these dtypes, and so many, are weights that were quantised.
_QUANTISED, _MANY = ("int8", "uint8"), 4096
# What TVM's pass builds kernels with.
_BUILD = "tirx.build"
# Threads in which the pass runs.
_folding: list[int] = []


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Computes what depends on constants alone, by kernels that are remembered."""

    name: ClassVar[str] = "fold-constants"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Binds what it has computed as constants."""
        kept = _Kept()
        with _remembering():
            folded = X.FoldConstant()(kept.hidden(module))
        return kept.shown(folded)


class _Kept:
    """Quantised weights, in whose places variables stand while constants are folded.

    As floats they would take four times the bytes, in each artifact and in memory.
    """

    def __init__(self) -> None:
        self._variables: dict[relax.Var, GenericConst] = {}

    def hidden(self, module: tvm.IRModule) -> tvm.IRModule:
        """The module with variables in place of such constants."""
        functions = [f for _, f in module.functions_items() if isinstance(f, relax.Function)]
        if not any(map(_is_quantised, _operands(functions))):
            return module
        return _mapped(module, GenericConst, self._hide)

    def shown(self, module: tvm.IRModule) -> tvm.IRModule:
        """The module with constants in place of these variables."""
        if not self._variables:
            return module
        return _mapped(module, ir.Var, lambda variable: self._variables.get(variable, variable))

    def _hide(self, constant: GenericConst) -> relax.Expr:
        if not _is_quantised(constant):
            return constant
        variable = relax.Var("quantised", constant.ty)
        self._variables[variable] = constant
        return variable


def _operands(functions: Iterable[relax.Function]) -> Iterator[relax.Expr]:
    """The tensors that kernels are called with."""
    for function in functions:
        for binding in bindings_of(function):
            if is_call(binding.value, "relax.call_tir"):
                yield from binding.value.args[1].fields


def _is_quantised(expression: relax.Expr) -> bool:
    if not isinstance(expression, GenericConst) or str(expression.ty.dtype) not in _QUANTISED:
        return False
    return math.prod(int(size) for size in expression.ty.shape) >= _MANY


def _mapped(module: tvm.IRModule, kind: type, change: Callable[[Any], Any]) -> tvm.IRModule:
    """The module with nodes of a kind changed in its Relax functions."""
    mapped = module.clone()
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            mapped.update_func(variable, tvm_ffi.structural_map(function, (kind, change)))
    return mapped


@dataclass(frozen=True)
class _Asked:
    """A kernel to build: `text` has all that the result depends on."""

    text: str
    kernel: tirx.PrimFunc = field(compare=False)
    target: tvm.target.Target = field(compare=False)


@lru_cache(_KEPT)
def _built(asked: _Asked) -> Any:
    return _tvms()(asked.kernel, asked.target)


@cache
def _tvms() -> Any:
    """TVM's own function, which is looked up before ours is in its place."""
    return tvm.get_global_func(_BUILD)


def _remember(module: Any, *more: Any) -> Any:
    # The pass asks for one kernel of one target; other threads may ask for more meanwhile.
    if len(more) != 1 or threading.get_ident() not in _folding:
        return _tvms()(module, *more)
    now = tvm.transform.PassContext.current()
    config = sorted((name, str(value)) for name, value in now.config.items())
    text = f"{more[0]} {now.opt_level} {config} {tvm.ir.save_json(module)}"
    return _built(_Asked(text, module, more[0]))


@contextmanager
def _remembering() -> Iterator[None]:
    """Ours stands in the place of TVM's function within the block."""
    own, thread = _tvms(), threading.get_ident()
    _folding.append(thread)
    tvm.register_global_func(_BUILD, _remember, override=True)
    try:
        yield
    finally:
        _folding.remove(thread)
        if not _folding:
            tvm.register_global_func(_BUILD, own, override=True)
