"""The backward pass computes from frozen weights again what the forward pass computed from them.

A frozen weight is often not what a layer reads: it is scaled, joined with others, or kept as
integers. What the forward makes of it would wait for the gradient of the layer's data, as large as
the weight, in all layers at once. A trained weight changes and so needs no less; a frozen one is
there at any time, and one pass over it is little beside the product that reads it.

Kernels that are more than a pass over elements, such as products, are not computed again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.ir.argument_roles import arguments_of_role
from odtc.core.ir.kernel_marks import OPAQUE, PATTERN, SINK, UNTOUCHED
from odtc.core.ir.relax_calls import operator_of
from odtc.core.specs import Role
from odtc.passes.contract import Pass
from odtc.passes.graph.half_storage import forward_length
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding, replaced
from odtc.passes.ir.tensor_bytes import variable_bytes

_CALL_TIR = "relax.call_tir"


@dataclass(frozen=True)
class _Held:
    """What a training step computes from frozen weights and constants alone.

    Attributes:
        module: holds the function, and its kernels with the classes of `PATTERN`.
        function: the training step.
        frozen: its frozen arguments.
    """

    module: tvm.IRModule
    function: relax.Function
    frozen: Sequence[relax.Var]

    @cached_property
    def made(self) -> dict[relax.Var, relax.Expr]:
        """The values of the forward pass, by variable."""
        known, made = set(self.frozen), dict[relax.Var, relax.Expr]()
        for binding in bindings_of(self.function)[: forward_length(self.function)]:
            if self._is_again(binding.value) and known.issuperset(_read(binding.value)):
                known.add(binding.var)
                made[binding.var] = binding.value
        return made

    def _is_again(self, value: relax.Expr) -> bool:
        """Whether a value is cheap to compute, and made of a tensor at all."""
        if isinstance(value, relax.TupleGetItem):
            return True
        if operator_of(value) != _CALL_TIR:
            return False
        marks = self.module[value.args[0]].attrs or {}
        # A kernel of rows by their number only gathers them.
        passes = int(marks.get(PATTERN, OPAQUE)) <= SINK or UNTOUCHED in marks
        return passes and len(value.args[1].fields) > 0

    def copied(
        self, builder: relax.BlockBuilder, variable: relax.Var, copies: dict[relax.Var, relax.Expr]
    ) -> relax.Expr:
        """Emits the value of a variable once more.

        Args:
            builder: its dataflow block is open.
            variable: one of `made`, or a frozen argument.
            copies: of variables, which it adds to.
        """
        if variable not in self.made:
            return variable
        if variable not in copies:
            value = self.made[variable]
            instead = {each: self.copied(builder, each, copies) for each in _read(value)}
            copies[variable] = builder.emit(replaced(value, instead), variable.name)
        return copies[variable]


def _read(value: relax.Expr) -> list[relax.Var]:
    return list(relax.analysis.free_vars(value))


@dataclass(frozen=True)
class RecomputeFrozen(Pass):
    """Lets the backward pass compute anew what it reads of frozen weights' forms.

    Attributes:
        function: name of the training step: one dataflow block, whose first result is the loss.
        least: tensors of fewer bytes wait: they cost less than a call.
    """

    name: ClassVar[str] = "recompute-frozen"
    function: str = field(repr=False)
    least: int = 4096

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        frozen = arguments_of_role(function, Role.FROZEN)
        if frozen is None:
            return module
        held = _Held(module, function, frozen)
        bindings, forward = bindings_of(function), forward_length(function)
        if not held.made:
            return module
        with rebuilding(module, self.function) as builder:
            for number, binding in enumerate(bindings):
                value = binding.value
                if number >= forward:
                    copies: dict[relax.Var, relax.Expr] = {}
                    instead = {
                        each: held.copied(builder, each, copies)
                        for each in self._waiting(held, value)
                    }
                    value = replaced(value, instead)
                bind(builder, binding.var, value)
        return builder.finalize()

    def _waiting(self, held: _Held, value: relax.Expr) -> Iterator[relax.Var]:
        """The large tensors of the forward that a value reads and that can be computed again."""
        for each in _read(value):
            if each in held.made and variable_bytes(each) >= self.least:
                yield each
