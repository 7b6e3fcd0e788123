"""A planned module as machine code, whose kernels are compiled side by side.

    kernels ─parts─→ threads ─→ modules of LLVM ─┐
    calls   ─by name───────────────────────────→ executable

LLVM and the passes before it take most of the time in which a step is compiled, and know nothing of
any kernel but the one that they compile. The parts are the same on every machine, however many
cores share them, so that a library is, too.
"""

from collections.abc import Mapping

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.relax import transform as X  # noqa: N812

from odtc.core.side_by_side import side_by_side

# Enough for the cores of a workstation to end at about the same time.
PARTS = 32
# Kernels of a part, at least: a module takes some time of its own.
_FEWEST = 4
# What TVM links into an executable, beside what it compiles itself.
_LINKED = "external_mods"


def compiled(
    module: tvm.IRModule, target: tvm.target.Target, pipeline: tvm.transform.Pass, parts: int
) -> relax.VMExecutable:
    """Compiles a module in the pass context of this thread.

    Args:
        module: functions whose storage is planned, and their kernels.
        target: of both.
        pipeline: from planned storage to instructions of the virtual machine.
        parts: in which kernels are compiled, at most; with 1 TVM compiles all at once.
    """
    # Without functions of Relax, TVM links nothing.
    if parts > 1 and any(isinstance(made, relax.Function) for _, made in module.functions_items()):
        module = _linked(module, target, parts)
    return tvm.compile(module, target, relax_pipeline=pipeline)


def _linked(module: tvm.IRModule, target: tvm.target.Target, parts: int) -> tvm.IRModule:
    """A module with a part of its kernels, which calls others by name and is linked with them."""
    functions = module.functions_items()
    kernels = [(each, made) for each, made in functions if isinstance(made, tirx.PrimFunc)]
    kernels.sort(key=lambda item: item[0].name_hint)
    parts = max(min(parts, len(kernels) // _FEWEST), 1)
    # Kernels of neighbouring names are alike, and are spread.
    own, *others = (dict(kernels[number::parts]) for number in range(parts))
    now = tvm.transform.PassContext.current()
    level, config = now.opt_level, dict(now.config)

    def build(part: Mapping[ir.GlobalVar, tirx.PrimFunc]) -> tvm.runtime.Module:
        # What a target and a pass context hold for is one thread.
        with target, tvm.transform.PassContext(opt_level=level, config=config):
            return tvm.tirx.build(X.AttachGlobalSymbol()(tvm.IRModule(part)), target)

    elsewhere = {each for part in others for each in part}

    def by_name(each: ir.GlobalVar) -> relax.Expr:
        return relax.ExternFunc(each.name_hint) if each in elsewhere else each

    calling = {
        each: tvm_ffi.structural_map(made, (ir.GlobalVar, by_name))
        for each, made in functions
        if not isinstance(made, tirx.PrimFunc)
    }
    built = side_by_side(build, [part for part in others if part])
    return tvm.IRModule(calling | own, attrs=module.attrs).with_attr(_LINKED, built)
