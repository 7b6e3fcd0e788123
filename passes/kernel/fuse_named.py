"""TVM's FuseOps, after which a variable still says which tensors its kernel computes.

FuseOps binds the call of a fused kernel to a new variable, and kernels of the same form are one:
what is inside of it has the names of its first use. So each call within a fused kernel is looked
for among the calls before: it is the one with the same operands.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst
from tvm.relax import transform as X  # noqa: N812

from odtc.core.ir.tensor_tags import Tags, tags_of, united
from odtc.passes.contract import Pass
from odtc.passes.graph.name_tensors import Named, renamed
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.ir.written_out import Grown
from odtc.passes.kernel.split_fused import split_fused

# What codes of few bits are stored as (`odtc/core/coded.py`).
_CODES = ("int8", "uint8", "uint16")
# How many tensors what dequantises reads.
_DEQUANTISED = 3
# Variables of the fused function, to those before it was fused.
_Same = dict[relax.Expr, relax.Expr]
# What an output of a fused kernel was before, and its tags.
_Output = tuple[relax.Expr | None, Tags]


@dataclass(frozen=True)
class FuseNamed(Pass):
    """Fuses operators, and names what fused kernels compute.

    Attributes:
        function: name of the training step; None where no names are to be kept.
        most: operators of a fused kernel; None for as many as TVM likes.
        grown: what calls become where code is made of a kernel, by which too large ones are cut.
    """

    name: ClassVar[str] = "fuse-named"
    function: str | None = field(repr=False)
    most: int | None = None
    grown: Grown = field(default_factory=dict, repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the module."""
        with self._bounded(reads_codes=any(map(_reads_codes, module.functions.values()))):
            fused = split_fused(X.FuseOps()(module), self.grown)
        if self.function is None:
            return fused
        tags = _Fused(module[self.function], fused).tags(fused[self.function])
        fused.update_func(fused.get_global_var(self.function), renamed(fused[self.function], tags))
        return fused

    def _bounded(self, *, reads_codes: bool) -> tvm.transform.PassContext:
        now = tvm.transform.PassContext.current()
        most = self.most and (_most_of_codes(self.most) if reads_codes else self.most)
        bound = {} if most is None else {"relax.FuseOps.max_depth": most}
        return tvm.transform.PassContext(opt_level=now.opt_level, config={**now.config, **bound})


def _reads_codes(function: tvm.ir.BaseFunc) -> bool:
    """Whether a kernel dequantises: it reads codes, zero points and scales."""
    if not isinstance(function, tirx.PrimFunc) or len(function.params) <= _DEQUANTISED:
        return False
    return any(str(getattr(each, "dtype", "")) in _CODES for each in function.params)


def _most_of_codes(most: int) -> int:
    """Operators that have no more tensors than so many sums, where some of them dequantise.

    Sums have one tensor more than there are of them, and their result. What dequantises has three,
    and one sum that joins it with others; a product reads three and another tensor.
    """
    tensors = most + 2
    return max(1 + 2 * (tensors - _DEQUANTISED - 2) // 3, 1)


class _Fused:
    """The variables of a function before it was fused, by what they are computed from.

    Args:
        before: the function.
        module: with the function fused, and its kernels.
    """

    def __init__(self, before: relax.Function, module: tvm.IRModule) -> None:
        self._module = module
        self._bound = {binding.var for binding in bindings_of(before)}
        # Variables, to those before, the first of equal ones, or constants that they stand for.
        self._same: _Same = {}
        self._made: dict[Hashable, relax.Var] = {}
        for binding in bindings_of(before):
            if isinstance(binding.value, GenericConst):
                self._same[binding.var] = binding.value
            elif (key := _key(binding.value, self._same)) is not None:
                self._bind(binding.var, self._made.setdefault(key, binding.var))
        # The outputs of kernels of several.
        self._outputs: dict[relax.Var, list[_Output]] = {}

    def tags(self, after: relax.Function) -> Named:
        """The tags of the variables that fusion brought."""
        found: Named = {}
        for binding in bindings_of(after):
            value = binding.value
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._outputs:
                before, found[binding.var] = self._outputs[value.tuple_value][value.index]
                self._bind(binding.var, before)
            elif self._is_fused(value):
                outputs = self._fused(value)
                found[binding.var] = outputs[0][1]
                if len(outputs) > 1:
                    self._outputs[binding.var] = outputs
                else:
                    self._bind(binding.var, outputs[0][0])
            elif binding.var not in self._bound:
                before = self._made.get(_key(value, self._same))
                self._bind(binding.var, before)
                found[binding.var] = tags_of(before.name) if before is not None else ()
        return found

    def _bind(self, variable: relax.Var, before: relax.Expr | None) -> None:
        if before is not None:
            self._same[variable] = before

    def _before(self, operand: relax.Expr) -> relax.Expr:
        """The operand before fusion; a field of a tuple may be one."""
        made = self._made.get(_key(operand, self._same), operand)
        return self._same.get(made, made)

    def _is_fused(self, value: relax.Expr) -> bool:
        called = getattr(value, "op", None)
        return isinstance(called, tvm.ir.GlobalVar) and isinstance(
            self._module[called], relax.Function
        )

    def _fused(self, call: relax.Call) -> list[_Output]:
        """The outputs of a fused kernel: what each was before, and its tags."""
        kernel = self._module[call.op]
        same: _Same = {
            inner: self._before(outer)
            for inner, outer in zip(kernel.params, call.args, strict=True)
        }
        needs: dict[relax.Expr, list[relax.Var]] = {}
        for binding in bindings_of(kernel):
            value = binding.value
            if isinstance(value, relax.Var):
                before = same.get(value)
            else:
                before = self._made.get(_key(value, same))
            if before is not None:
                same[binding.var] = before
            read = [each for v in relax.analysis.free_vars(value) for each in needs.get(v, ())]
            needs[binding.var] = [*dict.fromkeys([*read, binding.var])]
        values = {b.var: b.value for b in bindings_of(kernel)}
        result = values.get(kernel.body.body, kernel.body.body)
        outputs = result.fields if isinstance(result, relax.Tuple) else [kernel.body.body]
        order = {b.var: place for place, b in enumerate(bindings_of(kernel))}
        return [
            (
                same.get(output),
                _joined(sorted(needs.get(output, ()), key=order.__getitem__), same),
            )
            for output in outputs
        ]


def _joined(variables: Iterable[relax.Var], same: Mapping[relax.Expr, relax.Expr]) -> Tags:
    """The tags of what a kernel computes, from the last to the first."""
    before = [same[each] for each in reversed(list(variables)) if each in same]
    return united(tag for each in before for tag in tags_of(each.name))


def _key(value: relax.Expr, same: Mapping[relax.Expr, relax.Expr]) -> Hashable | None:
    """The key of a call: its callee and operands; None where it is no call."""
    if isinstance(value, relax.TupleGetItem):
        return value.index, same.get(value.tuple_value, value.tuple_value)
    if not isinstance(value, relax.Call):
        return None
    operands: list[relax.Expr] = []
    for argument in value.args:
        operands += argument.fields if isinstance(argument, relax.Tuple) else [argument]
    leaves = (relax.Var, GenericConst)
    names = [each.name_hint for each in operands if isinstance(each, tvm.ir.GlobalVar)]
    read = [same.get(each, each) for each in operands if isinstance(each, leaves)]
    return value.op, *names, *read
