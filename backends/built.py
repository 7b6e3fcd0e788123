"""A compiled module, and what is read of it: storage, arenas, and which kernels are special.

planned module, scheduled kernels ─built_of→ Built
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from odtc.backends.objects.compiling import Compiled
from odtc.backends.objects.kernel_objects import Objects
from odtc.backends.program.lines import Line, Lines
from odtc.backends.program.straight_line import lines_of
from odtc.core.ir.product_marks import TUNED, WINOGRAD
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.layout.select import LAYOUTS
from odtc.passes.memory.arena import RECORD
from odtc.passes.schedule.insert_checkpoints import REPEATED, STORED

_ALLOCATE, _ALLOCATE_RESULT = "relax.memory.alloc_storage", "relax.builtin.alloc_tensor"


@dataclass(frozen=True)
class BuiltStep:
    """A function of a module that is a training step.

    Attributes:
        function: its name.
        arena_bytes: of its arena.
        record: of its memory plan, as JSON.
        repeated: what is said of calls that run again; empty where nobody asked for it.
        stored_bytes: that tensors wait in, in storage.
    """

    function: str
    arena_bytes: int
    record: str
    repeated: str
    stored_bytes: int = 0


@dataclass(frozen=True)
class Built:
    """A compiled module.

    Attributes:
        executable: what `export_library` takes.
        objects: its kernels, where they are object files.
        planned_bytes: storage of each Relax function, by name.
        half_products: kernels that multiply float16.
        steps: the training step, by each of its plans.
        tuned: kernels whose loops come from a tuning record, each with its source.
        winograd: kernels that are convolutions in Winograd's form.
        layouts: of images in the training step, as JSON; empty where nobody chose any.
        lines: its functions as calls.
    """

    executable: relax.VMExecutable
    objects: Objects
    planned_bytes: dict[str, int]
    half_products: int
    steps: tuple[BuiltStep, ...]
    tuned: dict[str, str]
    winograd: tuple[str, ...] = ()
    layouts: str = ""
    lines: Lines = field(default_factory=lambda: Lines({}))

    @property
    def stored_bytes(self) -> int:
        """Bytes that any of the steps needs in storage."""
        return max((step.stored_bytes for step in self.steps), default=0)


def built_of(
    made: Compiled,
    scheduled: tvm.IRModule,
    planned: tvm.IRModule,
    train_step: str | None,
    steps: Sequence[str],
    names: Mapping[str, str] | None = None,
) -> Built:
    """Describes a compiled module: its storage, arenas, and special kernels.

    Args:
        made: the module as an executable.
        scheduled: its kernels, before storage was planned.
        planned: the module with planned storage.
        train_step: name of the training step, if there is one.
        steps: names of the functions that are it, one for each plan.
        names: of its kernels in the library, by those in the module, where they are others.
    """
    return Built(
        made.executable,
        made.objects,
        storage_bytes(planned),
        half_products(scheduled),
        tuple(_built_step(name, planned[name], names or {}) for name in steps),
        tuned_kernels(scheduled),
        winograd_kernels(scheduled),
        str(scheduled[train_step].attrs.get(LAYOUTS, "")) if train_step else "",
        _renamed(lines_of(planned), names or {}),
    )


def names_beside(number: int, planned: tvm.IRModule) -> dict[str, str]:
    """Names for the kernels of a module in the library of another one, by their own.

    Args:
        number: of the module, in that library; the first has names as they are.
        planned: the module.
    """
    # No kernel's own name has two of these in a row.
    return {
        variable.name_hint: f"{variable.name_hint}__{number}"
        for variable, function in planned.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }


def names_of_alike(
    first: tvm.IRModule, others: Sequence[tvm.IRModule]
) -> Sequence[Mapping[str, str]]:
    """The same for each of some modules, where kernels that are alike have one name.

    For a library whose kernels TVM compiles by name; object files are shared as they are.
    """
    known: dict[str, str] = {}
    for variable, function in first.functions_items():
        if isinstance(function, tirx.PrimFunc):
            known.setdefault(tvm.ir.save_json(function), variable.name_hint)
    named = []
    for number, planned in enumerate(others, 1):
        own = names_beside(number, planned)
        codes = {kernel: tvm.ir.save_json(planned[kernel]) for kernel in own}
        named.append({kernel: known.setdefault(codes[kernel], own[kernel]) for kernel in own})
    return named


def _renamed(lines: Lines, names: Mapping[str, str]) -> Lines:
    """Functions that call kernels by other names."""
    if not names:
        return lines

    def renamed(line: Line) -> Line:
        calls = tuple(replace(each, kernel=names[each.kernel]) for each in line.calls)
        return replace(line, calls=calls)

    return Lines({name: renamed(line) for name, line in lines.of.items()}, lines.refused)


def _built_step(name: str, function: relax.Function, names: Mapping[str, str]) -> BuiltStep:
    arena = sum(size for op, size in _allocations(function) if op == _ALLOCATE)
    record, repeated = (str(function.attrs.get(each, "")) for each in (RECORD, REPEATED))
    if names:
        said = json.loads(record)
        calls = [names.get(kernel, kernel) for kernel in said["calls"]]
        record = json.dumps(said | {"calls": calls})
    return BuiltStep(name, arena, record, repeated, int(function.attrs.get(STORED, 0)))


def storage_bytes(module: tvm.IRModule) -> dict[str, int]:
    """Bytes of planned storage in each Relax function."""
    return {
        variable.name_hint: sum(size for _, size in _allocations(function))
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function)
    }


def tuned_kernels(module: tvm.IRModule) -> dict[str, str]:
    """Kernels whose loops come from a tuning record, each with its source."""
    return {
        variable.name_hint: str(function.attrs[TUNED])
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and function.attrs and TUNED in function.attrs
    }


def winograd_kernels(module: tvm.IRModule) -> tuple[str, ...]:
    """Kernels that are convolutions in Winograd's form, by name."""
    return tuple(
        sorted(
            variable.name_hint
            for variable, function in module.functions_items()
            if isinstance(function, tirx.PrimFunc) and function.attrs and WINOGRAD in function.attrs
        )
    )


def half_products(module: tvm.IRModule) -> int:
    """Kernels whose sums are float16 in registers."""
    return sum(
        isinstance(function, tirx.PrimFunc) and _has_half_sums(function)
        for _, function in module.functions_items()
    )


def _has_half_sums(function: tirx.PrimFunc) -> bool:
    """Whether it has any, in blocks or, once its calls have an order, in statements."""
    blocks: list[s_tir.SBlock] = []
    statements: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, blocks.append))
    tvm_ffi.structural_walk(function.body, (tirx.AllocBuffer, statements.append))
    buffers = [buffer for block in blocks for buffer in block.alloc_buffers]
    buffers += [each.buffer for each in statements]
    return any(
        each.scope() == "local" and str(each.dtype).startswith("float16") for each in buffers
    )


def _allocations(function: relax.Function) -> list[tuple[str, int]]:
    """The allocations of a function: of storage or of a result's tensor, and how many bytes."""
    found: list[tuple[str, int]] = []
    for binding in bindings_of(function):
        op_name = operator_of(binding.value)
        if op_name == _ALLOCATE:
            found.append((op_name, int(binding.value.args[0].values[0])))
        elif op_name == _ALLOCATE_RESULT:
            shape = [int(size) for size in binding.value.args[0].values]
            dtype = str(binding.value.args[1].value)
            found.append((op_name, math.prod(shape) * np.dtype(dtype).itemsize))
    return found
