"""The library of one kernel, which runs as a step's do: with a plan.

TVM's virtual machine has it in the library; the native runtime is told the operands of the call,
and takes a GPU's kernel by a program beside the library.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import tvm
from tvm import relax, tirx

from odtc.autoschedule.tuning.tasks import Writer
from odtc.backends.cpus import CPU
from odtc.backends.decisions import Choice
from odtc.backends.lowering import build_kernels
from odtc.backends.objects.library import export_library
from odtc.backends.program.kernels import kernels_program
from odtc.backends.program.lines import Operand
from odtc.backends.vector_math import register_vector_math
from odtc.core.specs import TensorSpec

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
        program: of a GPU's kernel, the path of what the native runtime takes beside the library.
    """

    path: Path
    operands: tuple[Operand, ...]
    program: Path | None = None

    def remove(self) -> None:
        """Removes its files."""
        for path in filter(None, (self.path, self.program)):
            path.unlink(missing_ok=True)


def build(writer: Writer, order: BuildOrder) -> KernelLibrary:
    """Builds a library.

    Raises:
        OdtcError: the target does not take the kernel, or there is no linker.
        Exception: TVM's, where it fails.
    """
    register_vector_math()
    function, _ = writer.written(kernel_of(order.kernel), order.choice)
    target = writer.target
    built = build_kernels(calling(function), target, None)
    line = built.lines.of[MAIN]
    (call,) = line.calls
    if target.kind == CPU:
        export_library(built.executable, order.path, target)
        return KernelLibrary(order.path, call.operands)
    program = kernels_program(line, read_by(function), target.kind)
    identity = hashlib.sha256(program).hexdigest()
    export_library(built.executable, order.path, target, identity)
    (beside := order.path.with_suffix(".bin")).write_bytes(program)
    return KernelLibrary(order.path, call.operands, beside)


def read_by(function: tirx.PrimFunc) -> list[TensorSpec]:
    """Shape and dtype of what a kernel reads: all arguments but the last."""
    *read, _ = function.params
    return [
        TensorSpec("", tuple(int(size) for size in each.shape), str(each.dtype)) for each in read
    ]


def kernel_text(kernel: tirx.PrimFunc) -> str:
    """A kernel as JSON, for another process."""
    return json.dumps(tvm.ir.save_json(kernel))


@lru_cache(_KERNELS)
def kernel_of(text: str) -> tirx.PrimFunc:
    """Reads a kernel back from the text of `kernel_text`."""
    return tvm.ir.load_json(json.loads(text))


def calling(function: tirx.PrimFunc) -> tvm.IRModule:
    """A module that calls the kernel once."""
    *read, written = (
        relax.TensorType([int(size) for size in each.shape], str(each.dtype))
        for each in function.params
    )
    arguments = [relax.Var(f"arg{number}", type_) for number, type_ in enumerate(read)]
    builder = relax.BlockBuilder()
    kernel = builder.add_func(function.with_attr("global_symbol", KERNEL), KERNEL)
    with builder.function(MAIN, arguments):
        with builder.dataflow():
            result = builder.emit_output(relax.call_tir(kernel, relax.Tuple(arguments), written))
        builder.emit_func_output(result)
    return builder.finalize()
