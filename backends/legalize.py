"""Operators become kernels; those that are alike become one kernel, which is written once.

TVM writes a kernel for each call, and drops it where the module has one like it: of thirty layers
of a transformer, twenty-nine are written for nothing. Here a rule that made a call of a kernel, of
nothing but the operator's own tensors, is not asked again for a call that is alike.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir.expr import GenericConst

from odtc.core.ir.relax_calls import is_call, operator_of
from odtc.passes.contract import Pass

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

_RULE = "FLegalize"
# Larger constants are not compared: who has one asks the rule.
_CONSTANT_BYTES = 64


class _UnlikeError(Exception):
    """A call of which it is not known what it is like."""


@dataclass(frozen=True)
class _Kernel:
    """The kernel that a rule made of a call.

    Attributes:
        attrs: of the operator.
        call: of the kernel.
        operands: numbers of the operator's tensors, as the kernel takes them.
    """

    attrs: ir.Attrs | None
    call: relax.Call
    operands: Sequence[int]

    def called_with(self, tensors: Sequence[relax.Expr]) -> relax.Call:
        """The call of the kernel for the tensors of another operator."""
        operands = relax.Tuple([tensors[number] for number in self.operands])
        made = self.call
        return relax.Call(made.op, [made.args[0], operands], made.attrs, made.ty_args)


@dataclass(frozen=True)
class Legalize(Pass):
    """Makes kernels of operators, by TVM's pass of that name with our rules.

    Attributes:
        rules: our own, by operator; TVM's for all others.
        looked_through: operators that stay: what rules look for behind the tensors of a call, so
            that calls whose tensors are made by them are never taken for alike.
        stay: whether these are left as they are, or become kernels, too.
    """

    name: ClassVar[str] = "legalize"
    rules: Mapping[str, Rule] = field(repr=False)
    looked_through: Sequence[str] = field(repr=False)
    stay: bool

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites all functions."""
        made: dict[Hashable, list[_Kernel]] = {}
        once = {
            name: partial(self._once, rule, made)
            for name, rule in {**_usual(), **self.rules}.items()
        }
        skipped = list(self.looked_through) if self.stay else None
        return relax.transform.LegalizeOps(once, skip_ops=skipped)(module)

    def _once(
        self,
        rule: Rule,
        made: dict[Hashable, list[_Kernel]],
        builder: relax.BlockBuilder,
        call: relax.Call,
    ) -> relax.Expr:
        try:
            like = _Likeness(builder, self.looked_through)
            alike = made.setdefault(like.of(call), [])
        except _UnlikeError:
            return rule(builder, call)
        for kernel in alike:
            if tvm_ffi.structural_equal(kernel.attrs, call.attrs):
                return kernel.called_with(like.tensors)
        result = rule(builder, call)
        kernel = _kernel_of(result, call, like.tensors)
        if kernel:
            alike.append(kernel)
        return result


def _usual() -> Mapping[str, Rule]:
    """Rules that operators have without us: TVM's, and those that ours are declared with."""
    # Operators are only ever added, each with its rule.
    return _rules_of(len(ir.Op.list_op_names()))


@cache
def _rules_of(_: int) -> Mapping[str, Rule]:
    """The rules of all operators, of which there are so many: to ask each takes milliseconds."""
    found = {name: ir.Op.get(name).get_attr(_RULE) for name in ir.Op.list_op_names()}
    return {name: rule for name, rule in found.items() if rule is not None}


def _kernel_of(
    result: relax.Expr, call: relax.Call, tensors: Sequence[relax.Expr]
) -> _Kernel | None:
    """The kernel of a rule's result, where that is a call of one kernel with no other tensors."""
    if not is_call(result, "relax.call_tir") or len(result.args) != 2:
        return None
    numbers = [_place(each, tensors) for each in result.args[1].fields]
    if None in numbers:
        return None
    return _Kernel(call.attrs, result, [each for each in numbers if each is not None])


def _place(operand: relax.Expr, tensors: Sequence[relax.Expr]) -> int | None:
    return next((at for at, each in enumerate(tensors) if each.same_as(operand)), None)


@dataclass
class _Likeness:
    """Describes a call but for its attributes: two that are described alike have one kernel.

    Attributes:
        builder: of the module.
        looked_through: as of `Legalize`.
        tensors: of the call, each once.
    """

    builder: relax.BlockBuilder
    looked_through: Sequence[str]
    tensors: list[relax.Expr] = field(default_factory=list)

    def of(self, call: relax.Call) -> Hashable:
        """The description.

        Raises:
            _UnlikeError: there is none.
        """
        if call.ty_args:
            raise _UnlikeError
        return (call.op.name, *map(self._said, call.args))

    def _said(self, expression: relax.Expr) -> Hashable:
        if isinstance(expression, relax.ShapeExpr):
            return ("shape", *map(self._said, expression.values))
        if isinstance(expression, ir.Tuple):
            return ("tuple", *map(self._said, expression.fields))
        if isinstance(expression, tirx.IntImm | tirx.FloatImm):
            return ("number", str(expression.ty), repr(expression.value))
        if not isinstance(expression.ty, relax.TensorType):
            raise _UnlikeError
        if isinstance(expression, GenericConst):
            array = expression.value.numpy()
            if array.nbytes > _CONSTANT_BYTES:
                raise _UnlikeError
            return (*self._tensor(expression), array.tobytes())
        if isinstance(expression, ir.Var):
            maker = self.builder.lookup_binding(expression)
            if operator_of(maker) not in self.looked_through:
                return self._tensor(expression)
        raise _UnlikeError

    def _tensor(self, tensor: relax.Expr) -> tuple[Hashable, ...]:
        """Which of the tensors it is, and its type."""
        number = _place(tensor, self.tensors)
        if number is None:
            number = len(self.tensors)
            self.tensors.append(tensor)
        shape = tensor.ty.shape
        if not isinstance(shape, relax.ShapeExpr):
            raise _UnlikeError
        sizes = map(self._said, shape.values)
        return ("tensor", number, str(tensor.ty.dtype), str(tensor.ty.vdevice), *sizes)
