"""What the backward reads of a tensor is read from its copy, where that is saved anyway.

A branch's result is copied into a concat's, or shuffled, and the next layer keeps the copy for the
gradient of its weights. A rectifier's gradient reads the branch's result itself: the same values
are saved twice. Here it reads the copy, through a slice or a permutation that becomes a part of its
kernel, and the branch's result is dead as soon as it is copied.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R  # noqa: N812
from tvm.relax import transform as X  # noqa: N812

from odtc.core.kernel_marks import PATTERN
from odtc.passes.absorb_activation import bindings_of, name_of
from odtc.passes.contract import Pass
from odtc.passes.half_storage import forward_length

# From a copy to the tensor that was copied, as Relax operators.
Undo = Callable[[relax.Expr], relax.Expr]

_CALL_TIR = "relax.call_tir"
_RESHAPE, _PERMUTE, _CONCAT = "relax.reshape", "relax.permute_dims", "relax.concat"
_COPYING = (_RESHAPE, _PERMUTE, _CONCAT)
# Fused with a slice or a permutation before them: kernels of these classes, and these operators.
_FUSED_PATTERNS = (0, 1)
_FUSED = frozenset(
    f"relax.{name}"
    for name in (
        "add subtract multiply divide maximum minimum negative astype where "
        "greater greater_equal less less_equal equal not_equal"
    ).split()
)


@dataclass(frozen=True)
class Copy:
    """A binding that copies a tensor, or gives it another shape, and how to read the tensor there.

    Attributes:
        source: the tensor.
        result: what all its elements are in.
        undo: the tensor from the result.
    """

    source: relax.Var
    result: relax.Var
    undo: Undo


def copies_of(binding: relax.Binding) -> Iterator[Copy]:
    """Each tensor that a binding copies as a whole."""
    value, result = binding.value, binding.var
    if name_of(value) not in _COPYING:
        return
    given: relax.Expr = value.args[0]
    if name_of(value) == _RESHAPE and isinstance(given, relax.Var):
        shape = given.ty.shape
        yield Copy(given, result, lambda copy: R.reshape(copy, shape))
    elif name_of(value) == _PERMUTE and isinstance(given, relax.Var):
        axes = _axes(value)
        # Neighbours in memory have to stay neighbours.
        if axes[-1] == len(axes) - 1:
            yield Copy(given, result, lambda copy: R.permute_dims(copy, np.argsort(axes).tolist()))
    elif isinstance(given, relax.Tuple):
        yield from _joined(given, result, int(value.attrs.axis))


def _joined(fields: relax.Tuple, result: relax.Var, axis: int) -> Iterator[Copy]:
    axis %= len(result.ty.shape)
    ends = list(accumulate(int(each.ty.shape[axis]) for each in fields))
    for each, begin, end in zip(fields, [0, *ends], ends, strict=False):
        if isinstance(each, relax.Var):
            yield Copy(each, result, _slice(axis, begin, end))


def _slice(axis: int, begin: int, end: int) -> Undo:
    return lambda copy: R.strided_slice(copy, [axis], [begin], [end])


def _axes(call: relax.Call) -> list[int]:
    rank = len(call.args[0].ty.shape)
    given = call.attrs.axes
    return [int(axis) % rank for axis in given] if given else list(range(rank))[::-1]


@dataclass(frozen=True)
class Saved:
    """What the backward of a training step reads of its forward.

    Attributes:
        function: the training step.
        fused: names of the kernels that can be fused with what stands in front of them.
    """

    function: relax.Function
    fused: frozenset[str]

    @cached_property
    def bindings(self) -> list[relax.Binding]:
        """All bindings, in order."""
        return bindings_of(self.function)

    @cached_property
    def forward(self) -> int:
        """How many bindings are of the forward pass."""
        return forward_length(self.function)

    @cached_property
    def born(self) -> dict[relax.Var, int]:
        """Number of the binding of each tensor of the forward."""
        return {b.var: number for number, b in enumerate(self.bindings[: self.forward])}

    @cached_property
    def copies(self) -> dict[relax.Var, list[Copy]]:
        """The copies that the forward makes of each of its tensors."""
        found: dict[relax.Var, list[Copy]] = defaultdict(list)
        for binding in self.bindings[: self.forward]:
            for copy in copies_of(binding):
                if copy.source in self.born:
                    found[copy.source].append(copy)
        return found

    @cached_property
    def roots(self) -> dict[relax.Var, relax.Var]:
        """The tensor whose memory each tensor shares, where that is another one."""
        roots: dict[relax.Var, relax.Var] = {}
        for binding in self.bindings:
            if name_of(binding.value) == _RESHAPE and isinstance(binding.value.args[0], relax.Var):
                source = binding.value.args[0]
                roots[binding.var] = roots.get(source, source)
        return roots

    def root(self, variable: relax.Var) -> relax.Var:
        """The tensor whose memory a tensor shares."""
        return self.roots.get(variable, variable)

    @cached_property
    def readers(self) -> dict[relax.Var, list[int]]:
        """The bindings of the backward that read each tensor of the forward, by its root."""
        readers: dict[relax.Var, list[int]] = defaultdict(list)
        for number in range(self.forward, len(self.bindings)):
            if self.bindings[number].var not in self.roots:
                for variable in relax.analysis.free_vars(self.bindings[number].value):
                    readers[self.root(variable)].append(number)
        return readers

    def is_fusable(self, number: int) -> bool:
        """Whether a binding can be fused with a slice of what it reads."""
        value = self.bindings[number].value
        if name_of(value) == _CALL_TIR:
            return value.args[0].name_hint in self.fused
        return name_of(value) in _FUSED

    def is_anchored(self, root: relax.Var) -> bool:
        """Whether a tensor is saved whatever elementwise readers read."""
        return any(not self.is_fusable(number) for number in self.readers[root])

    def found_in(self, root: relax.Var) -> list[Copy]:
        """The shortest way from a tensor to a copy that is saved; empty where there is none."""
        ways: list[list[Copy]] = [[copy] for copy in self.copies[root]]
        for way in ways:
            reached = way[-1].result
            if self.root(reached) is not root and self.is_anchored(self.root(reached)):
                return way
            ways += [[*way, copy] for copy in self.copies[reached]]
        return []

    @cached_property
    def moved(self) -> dict[relax.Var, list[Copy]]:
        """The tensors that are read elsewhere, each with the way to the copy."""
        ways: dict[relax.Var, dict[relax.Var, list[Copy]]] = defaultdict(dict)
        for root in {self.root(variable) for variable in self.born}:
            if self.readers[root] and not self.is_anchored(root) and (way := self.found_in(root)):
                ways[self.root(way[-1].result)][root] = way
        return {
            source: way
            for copy, sources in ways.items()
            if self._pays(copy, list(sources))
            for source, way in sources.items()
        }

    def _pays(self, copy: relax.Var, sources: list[relax.Var]) -> bool:
        """Whether less is alive, in bytes times bindings, though a copy may be read for longer."""
        ends = {source: max(self.readers[source]) for source in sources}
        saved = sum(_bytes(each) * (ends[each] - self.born[copy]) for each in sources)
        longer = max(ends.values()) - max(self.readers[copy])
        return _bytes(copy) * max(longer, 0) < saved


def _bytes(variable: relax.Var) -> int:
    shape, dtype = variable.ty.shape, str(variable.ty.dtype)
    return int(np.prod([int(size) for size in shape])) * np.dtype(dtype).itemsize


def _fused_kernels(module: tvm.IRModule) -> frozenset[str]:
    """Names of the kernels of a module that map elements."""
    kernels = {n: f for n, f in module.functions_items() if isinstance(f, tirx.PrimFunc)}
    marked = X.AnnotateTIROpPattern()(tvm.IRModule(kernels))
    return frozenset(
        name.name_hint
        for name, function in marked.functions_items()
        if int(function.attrs.get(PATTERN, -1)) in _FUSED_PATTERNS
    )


@dataclass(frozen=True)
class ReadCopies(Pass):
    """Lets elementwise kernels of the backward read saved copies.

    Attributes:
        function: name of the training step: one dataflow block, whose first result is the loss.
    """

    name: ClassVar[str] = "read-copies"
    function: str

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        saved = Saved(function, _fused_kernels(module))
        if not saved.moved:
            return module
        functions = module.functions_items()
        others = {name: f for name, f in functions if name.name_hint != self.function}
        builder = relax.BlockBuilder(tvm.IRModule(others))
        with builder.function(self.function, function.params):
            with builder.dataflow():
                for number, binding in enumerate(saved.bindings):
                    value = binding.value
                    if number >= saved.forward:
                        value = builder.normalize(_elsewhere(builder, saved, value))
                    builder.emit_normalized(relax.VarBinding(binding.var, value))
            builder.emit_func_output(function.body.body)
        return builder.finalize()


def _elsewhere(builder: relax.BlockBuilder, saved: Saved, value: relax.Expr) -> relax.Expr:
    """What a binding of the backward computes, of copies: each reader has slices of its own."""
    read = [each for each in relax.analysis.free_vars(value) if saved.root(each) in saved.moved]
    read = [each for each in read if each in saved.born]
    instead = {}
    for each in read:
        root = saved.root(each)
        way = saved.moved[root]
        found: relax.Expr = way[-1].result
        for copy in reversed(way):
            found = builder.emit(copy.undo(found))
        instead[each] = found if each is root else builder.emit(R.reshape(found, each.ty.shape))
    return _with(value, instead)


def _with(value: relax.Expr, instead: dict[relax.Var, relax.Expr]) -> relax.Expr:
    """An expression with other expressions in the places of variables."""
    if isinstance(value, relax.Var):
        return instead.get(value, value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([_with(field, instead) for field in value.fields])
    if isinstance(value, relax.Call):
        arguments = [_with(each, instead) for each in value.args]
        return relax.Call(value.op, arguments, value.attrs, value.ty_args)
    return value
