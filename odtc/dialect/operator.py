"""A Relax operator of our own, and all that is said of it outside of its kernels.

A function that Relax has no operator for could be spelled out in several. But then the gradient
pass differentiates each of them, and the backward pass reads what lies between them: a step would
keep three or four tensors of the size of the input. One operator with one rule keeps one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

import tvm
from tvm import ir, relax, te
from tvm.ir import _ffi_api

from odtc.core.ir.kernel_marks import PATTERN
from odtc.dialect.attributes import read_as
from odtc.dialect.channels_last import ChannelsLast
from odtc.dialect.rule import Rule

PREFIX = "odtc."
# Above the level of TVM's own attributes of operators, so that ours win.
LEVEL = 11

A = TypeVar("A")
InferType = Callable[[relax.Call], relax.Type]
# From the tensors and the attributes to the result.
Kernel = Callable[..., te.Tensor]


def type_of_first(call: relax.Call) -> relax.Type:
    """The type of a call whose result is like its first argument."""
    return call.args[0].ty


@dataclass(frozen=True, eq=False, kw_only=True)
class RelaxOperator(Generic[A]):
    """An operator; to call it makes a Relax call: tensors, then attributes by name.

    TVM knows it as soon as it is made, for the whole process.

    Attributes:
        name: begins with `odtc.`; it is written in the operator's file, and nowhere else.
        gradient: its rule; None of what nothing differentiates, such as a backward operator.
        attributes: a frozen dataclass: what the attributes are named, and what they are.
        infer: the type of a call.
        kernel: an expression that every target schedules; the attributes are its keyword arguments.
            None where `backends/families.py` has a rule for the operator.
        arity: tensors that an operator with an expression takes.
        pattern: what the expression may be fused with; found by what it computes if None.
        channels_last: how it runs on images that have their channels last; None where it cannot.
        large: places of the results that are tensors, where others are statistics or not floats:
            what is saved in half precision.
        maps: whether it maps the elements of a tensor one by one.
        draws: whether its last argument is the number of the step, from which random numbers
            follow; it is 0 outside of training.
    """

    name: str
    gradient: Rule | None
    attributes: type[A]
    infer: InferType = type_of_first
    kernel: Kernel | None = None
    arity: int = 1
    pattern: int | None = None
    channels_last: ChannelsLast | None = None
    large: range = range(0)
    maps: bool = False
    draws: bool = False

    def __post_init__(self) -> None:
        if self.kernel is not None:
            _define(self.name, self.arity, self.kernel)
            self._say("FLegalize", self._legalize)
        self._say("FInferType", lambda call, _: self.infer(call))
        self._say("FPurity", True)
        if self.gradient is not None:
            self._say("FPrimalGradient", self.gradient)

    def __call__(self, *tensors: relax.Expr, **attributes: Any) -> relax.Call:
        """A call.

        Raises:
            TypeError: an attribute is missing, or there is none of that name.
        """
        self.attributes(**attributes)
        made = ir.make_node("ir.DictAttrs", **attributes)
        return relax.Call(ir.Op.get(self.name), list(tensors), made)

    def read(self, call: relax.Call) -> A:
        """The attributes of a call of the operator."""
        return read_as(self.attributes, call)

    @cached_property
    def has_layout(self) -> bool:
        """Whether an attribute says the layout of images, which is nothing to it otherwise."""
        return "layout" in get_type_hints(self.attributes)

    def _say(self, key: str, value: object) -> None:
        tvm.ir.register_op_attr(self.name, key, value, level=LEVEL)

    def _legalize(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Call:
        kernel, attrs = self.kernel, vars(self.read(call))
        assert kernel is not None
        return builder.call_te(
            lambda *tensors: kernel(*tensors, **attrs),
            *call.args,
            primfunc_name_hint=self.name.removeprefix(PREFIX),
            primfunc_attrs=None if self.pattern is None else {PATTERN: self.pattern},
        )


def _define(name: str, arity: int, kernel: Kernel) -> None:
    """Adds an operator of so many tensors to TVM's registry."""
    _ffi_api.RegisterOp(name, kernel.__doc__ or name)
    op = ir.Op.get(name)
    op.set_num_inputs(arity)
    for slot in range(arity):
        op.add_argument(f"x{slot}", "Tensor", "")
