"""Notes which operands each kernel call writes, while calls still say it.

A direct call of a kernel names its tensors alone: what it reads, what it writes, its workspace.
Until calls are direct, those that are in place say which operands they change.
"""

import json
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import Pass
from odtc.passes.graph.immediate_update import IN_PLACE, KERNEL_CALLS
from odtc.passes.ir.bindings import bindings_of

# Attribute of a function: of each of its calls `[operands that it is given, changed, ...]`, as
# JSON. The operands behind those that it is given are results and a workspace.
WRITES = "odtc.writes"


@dataclass(frozen=True)
class NoteWrites(Pass):
    """Gives each function the attribute `WRITES`; functions hold no dataflow blocks."""

    name: ClassVar[str] = "note-writes"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Notes it of all Relax functions."""
        noted = module.clone()
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                writes = [
                    _written(binding.value)
                    for binding in bindings_of(function)
                    if operator_of(binding.value) in KERNEL_CALLS
                ]
                noted.update_func(variable, function.with_attr(WRITES, json.dumps(writes)))
        return noted


def _written(call: relax.Call) -> list[int]:
    """How many operands a call is given, and which of them it changes."""
    given = len(call.args[1].fields) if isinstance(call.args[1], relax.Tuple) else 1
    if operator_of(call) != IN_PLACE:
        return [given]
    return [given, *(int(each) for each in call.attrs.inplace_indices if int(each) >= 0)]
