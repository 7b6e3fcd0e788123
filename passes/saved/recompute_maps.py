"""The backward pass computes a function of each element again where its operand is saved anyway.

A gated layer multiplies `silu(gate)` by another tensor. The gradient of the product reads it, that
of the function reads the gate: both would wait for the backward pass, though one follows from the
other. Computed where it is read, in a kernel that maps elements too, it takes no call of its own:

    y = silu(gate) * up;  ...;  dup = dy * silu(gate);  dgate = dy * up * silu'(gate)

Where another kernel reads the function, such as a product, it stays: it would be a tensor again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.table import OPERATORS
from odtc.passes.contract import Pass
from odtc.passes.graph.read_copies import Saved, fused_kernels
from odtc.passes.ir.bindings import bind, rebuilding, replaced
from odtc.passes.ir.tensor_bytes import variable_bytes

_MAPS = {name for name, operator in OPERATORS.items() if operator.maps} | {
    f"relax.{name}" for name in "nn.silu nn.gelu nn.gelu_tanh sigmoid tanh exp square".split()
}


@dataclass(frozen=True)
class RecomputeMaps(Pass):
    """Lets elementwise kernels of the backward compute functions of saved tensors.

    Attributes:
        function: name of the training step: one dataflow block, whose first result is the loss.
        least: bytes of a function's result that is worth it.
    """

    name: ClassVar[str] = "recompute-maps"
    function: str = field(repr=False)
    least: int = 4096

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        saved = Saved(module[self.function], fused_kernels(module))
        made = self._made(saved)
        if not made:
            return module
        with rebuilding(module, self.function) as builder:
            for number, binding in enumerate(saved.bindings):
                value = binding.value
                if number >= saved.forward and binding.var not in saved.roots:
                    value = _again(builder, saved, made, value)
                bind(builder, binding.var, value)
        return builder.finalize()

    def _made(self, saved: Saved) -> dict[relax.Var, relax.Call]:
        """The functions that need not be saved, by their results."""
        made: dict[relax.Var, relax.Call] = {}
        for binding in saved.bindings[: saved.forward]:
            if operator_of(binding.value) not in _MAPS:
                continue
            readers, (operand, *_) = saved.readers.get(binding.var, ()), binding.value.args
            if (
                readers
                and all(map(saved.is_fusable, readers))
                and variable_bytes(binding.var) >= self.least
                and isinstance(operand, relax.Var)
                and _is_there(saved, saved.root(operand), made)
            ):
                made[binding.var] = binding.value
        return made


def _is_there(saved: Saved, root: relax.Var, made: Mapping[relax.Var, relax.Call]) -> bool:
    """Whether a tensor is an argument, or is saved anyway."""
    return root not in saved.born or (root in saved.readers and root not in made)


def _again(
    builder: relax.BlockBuilder,
    saved: Saved,
    made: Mapping[relax.Var, relax.Call],
    value: relax.Expr,
) -> relax.Expr:
    """A value of the backward pass with the functions that it reads computed for it."""
    instead = {}
    for each in relax.analysis.free_vars(value):
        root = saved.root(each)
        if root in made:
            found = builder.emit(made[root])
            instead[each] = found if each is root else builder.emit(R.reshape(found, each.ty.shape))
    return replaced(value, instead)
