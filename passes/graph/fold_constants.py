"""Folds what depends on constants alone, by kernels that are built once in a process.

TVM's pass asks a global function for each of them, and so LLVM, in every module anew: that was half
of what the compilation of a small model took. Modules have many of them in common: a training step
and its evaluation, and all steps that are looked at for a budget.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, ClassVar

import tvm
from tvm import tirx
from tvm.relax import transform as X  # noqa: N812

from odtc.passes.contract import Pass

# Kernels that are kept; each is some kilobytes of machine code.
_KEPT = 256
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
        with _remembering():
            return X.FoldConstant()(module)


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
