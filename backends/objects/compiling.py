"""A planned module as an executable.

    kernels ─kernel_objects→ object files ─┐
    calls   ─by name───────────────────────→ executable

Or all at once, by TVM, for what runs in this process or is for a GPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from odtc.backends.objects.kernel_objects import Objects, kernel_objects


@dataclass(frozen=True)
class Compiled:
    """A compiled module.

    Attributes:
        executable: its functions, and those of its kernels that are no objects.
        objects: its kernels, where a library is linked of it.
    """

    executable: relax.VMExecutable
    objects: Objects = field(default_factory=lambda: Objects({}, {}))


def compiled(
    module: tvm.IRModule,
    target: tvm.target.Target,
    pipeline: tvm.transform.Pass,
    *,
    apart: bool,
    also: Sequence[tvm.target.Target] = (),
    more: Mapping[str, tirx.PrimFunc] | None = None,
) -> Compiled:
    """Compiles a module in the pass context of this thread.

    Args:
        module: functions whose storage is planned, and their kernels.
        target: of both.
        pipeline: from planned storage to instructions of the virtual machine.
        apart: whether kernels become object files, for a library. Otherwise TVM compiles all at
            once, and the executable can run in this process.
        also: further targets that kernels become object files for; see `kernel_objects`.
        more: kernels that the library has beside those of the module, by name.
    """
    if not apart:
        module = module.clone()
        for name, made in (more or {}).items():
            module[name] = made.with_attr("global_symbol", name)
        return Compiled(tvm.compile(module, target, relax_pipeline=pipeline))
    functions = module.functions_items()
    kernels = {each: made for each, made in functions if isinstance(made, tirx.PrimFunc)}

    def by_name(each: ir.GlobalVar) -> relax.Expr:
        return relax.ExternFunc(each.name_hint) if each in kernels else each

    calling = {
        each: tvm_ffi.structural_map(made, (ir.GlobalVar, by_name))
        for each, made in functions
        if each not in kernels
    }
    without = tvm.IRModule(calling, attrs=module.attrs)
    named = {each.name_hint: made for each, made in kernels.items()} | dict(more or {})
    objects = kernel_objects(named, target, also)
    return Compiled(tvm.compile(without, target, relax_pipeline=pipeline), objects)
