"""The library of one kernel, which runs as a step's do: with a plan.

TVM's virtual machine has it in the library; the native runtime is told the operands of the call.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import tvm
from tvm import relax, tirx

from odtc.autoschedule.tuning.tasks import Writer
from odtc.backends.decisions import Choice
from odtc.backends.lowering import build_kernels
from odtc.backends.objects.library import export_library
from odtc.backends.program.lines import Operand
from odtc.backends.vector_math import register_vector_math

# Kernels that a process caches: the same ones are built with one choice after the other.
_KERNELS = 64
# The function of such a library, from what the kernel reads to what it writes; and the kernel.
MAIN, KERNEL = "main", "kernel"


@dataclass(frozen=True)
class BuildOrder:
    """A library to build.

    Attributes:
        kernel: a product without loops, as JSON.
        choice: of its decisions.
        path: of the library, which is new.
    """

    kernel: str
    choice: Choice
    path: Path


@dataclass(frozen=True)
class KernelLibrary:
    """A library that was built.

    Attributes:
        path: of it.
        operands: what its kernel is called with: arguments, the result, and workspaces of the plan.
    """

    path: Path
    operands: tuple[Operand, ...]


def build(writer: Writer, order: BuildOrder) -> KernelLibrary:
    """Builds a library.

    Raises:
        OdtcError: the target does not take the kernel, or there is no linker.
        Exception: TVM's, where it fails.
    """
    register_vector_math()
    function, _ = writer.written(kernel_of(order.kernel), order.choice)
    built = build_kernels(_module(function), writer.target, None)
    export_library(built.executable, order.path, writer.target)
    (call,) = built.lines.of[MAIN].calls
    return KernelLibrary(order.path, call.operands)


def kernel_text(kernel: tirx.PrimFunc) -> str:
    """A kernel as JSON, for another process."""
    return json.dumps(tvm.ir.save_json(kernel))


@lru_cache(_KERNELS)
def kernel_of(text: str) -> tirx.PrimFunc:
    """Reads a kernel back from the text of `kernel_text`."""
    return tvm.ir.load_json(json.loads(text))


def _module(function: tirx.PrimFunc) -> tvm.IRModule:
    """A module that calls the kernel once."""
    *read, written = (
        relax.TensorType([int(size) for size in each.shape], str(each.dtype))
        for each in function.params
    )
    arguments = [relax.Var(f"arg{number}", type_) for number, type_ in enumerate(read)]
    builder = relax.BlockBuilder()
    kernel = builder.add_func(function, KERNEL)
    with builder.function(MAIN, arguments):
        with builder.dataflow():
            result = builder.emit_output(relax.call_tir(kernel, relax.Tuple(arguments), written))
        builder.emit_func_output(result)
    return builder.finalize()
