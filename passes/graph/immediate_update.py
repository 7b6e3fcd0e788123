"""Each parameter is updated as soon as its gradient exists, which is then free again.

The training step is built with all updates at its end, where every gradient would be live at once:
as many bytes as the parameters have. An update may run once its gradient is computed and nothing
reads the old parameter any more: the backward of a layer reads its weight for the data's gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of, with_bindings

IN_PLACE = "relax.call_tir_inplace"
KERNEL_CALLS = ("relax.call_tir", IN_PLACE)


def read_variables(binding: relax.Binding) -> list[relax.Var]:
    """Variables that a binding's value reads."""
    return list(relax.analysis.free_vars(binding.value))


def changed_variables(binding: relax.Binding) -> list[relax.Var]:
    """Variables that an in-place call changes."""
    call = binding.value
    return [call.args[1].fields[int(index)] for index in call.attrs.inplace_indices]


def earliest_positions(bindings: Sequence[relax.Binding]) -> list[int]:
    """For each binding the index after which it may run; its own where it may not move.

    Only in-place calls move. What is neither a kernel nor an in-place call (a reshape, a tuple)
    may be a view, and counts as its arguments wherever it is read.
    """
    names = [operator_of(binding.value) for binding in bindings]
    sources: dict[relax.Var, set[relax.Var]] = {}
    defined: dict[relax.Var, int] = {}
    last_read: dict[relax.Var, int] = {}
    for index, (binding, name) in enumerate(zip(bindings, names, strict=True)):
        roots = {root for v in read_variables(binding) for root in sources.get(v, {v})}
        sources[binding.var] = {binding.var} if name in KERNEL_CALLS else roots | {binding.var}
        defined[binding.var] = index
        if name != IN_PLACE:
            last_read |= dict.fromkeys(roots, index)
    positions = list(range(len(bindings)))
    for index, (binding, name) in enumerate(zip(bindings, names, strict=True)):
        if name == IN_PLACE:
            ready = [defined[v] for v in read_variables(binding) if v in defined]
            idle = [last_read[v] for v in changed_variables(binding) if v in last_read]
            positions[index] = max([*ready, *idle], default=index)
    return positions


@dataclass(frozen=True)
class ImmediateUpdate(Pass):
    """Moves the in-place updates of a function up to where they may first run.

    Attributes:
        function: name of the training step; its body holds no dataflow block.
    """

    name: ClassVar[str] = "immediate-update"
    function: str = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Reorders the bindings of the function; each keeps its value."""
        function = module[self.function]
        bindings = bindings_of(function)
        order = sorted(zip(earliest_positions(bindings), range(len(bindings)), strict=True))
        rewritten = with_bindings(function, [bindings[index] for _, index in order])
        module = module.clone()
        module.update_func(module.get_global_var(self.function), rewritten)
        return relax.transform.Normalize()(module)
