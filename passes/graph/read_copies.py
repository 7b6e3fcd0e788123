"""Reads tensors of the forward pass from a copy, where that copy is saved anyway.

A branch's result is copied into a concat's, or shuffled, and the next layer keeps the copy for the
gradient of its weights. A rectifier's gradient reads the branch's result itself: the same values
are saved twice. Here it reads the copy, through a slice or a permutation that becomes a part of its
kernel, and the branch's result is dead as soon as it is copied.

The gradient of a batch normalisation reads its input a channel at a time. Where that is some
channels of a concat's result, as in DenseNet, it reads those.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.relax import op as R  # noqa: N812
from tvm.relax import transform as X  # noqa: N812

from odtc.core.ir.kernel_marks import PATTERN
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.batch_norm import batch_norm_backward, normalised
from odtc.passes.contract import Pass
from odtc.passes.graph.half_storage import forward_length
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding, replaced
from odtc.passes.ir.copies import RESHAPE, Copy, copies_in
from odtc.passes.ir.tensor_bytes import variable_bytes

_CALL_TIR = "relax.call_tir"
# Fused with a slice or a permutation before them: kernels of these classes, and these operators.
_FUSED_PATTERNS = (0, 1)
FUSED = frozenset(
    f"relax.{name}"
    for name in (
        "add subtract multiply divide maximum minimum negative astype where "
        "greater greater_equal less less_equal equal not_equal"
    ).split()
)


@dataclass(frozen=True)
class Saved:
    """The tensors of the forward pass that the backward pass of a step reads.

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
        return copies_in(self.bindings[: self.forward])

    @cached_property
    def roots(self) -> dict[relax.Var, relax.Var]:
        """The tensor whose memory each tensor shares, where that is another one."""
        roots: dict[relax.Var, relax.Var] = {}
        for binding in self.bindings:
            if operator_of(binding.value) == RESHAPE and isinstance(
                binding.value.args[0], relax.Var
            ):
                source = binding.value.args[0]
                roots[binding.var] = roots.get(source, source)
        return roots

    def root(self, variable: relax.Var) -> relax.Var:
        """The tensor whose memory a tensor shares."""
        return self.roots.get(variable, variable)

    @cached_property
    def readers(self) -> dict[relax.Var, list[int]]:
        """The bindings of the backward that read each tensor of the forward, by its root."""
        readers: defaultdict[relax.Var, list[int]] = defaultdict(list)
        for number in range(self.forward, len(self.bindings)):
            if self.bindings[number].var not in self.roots:
                for variable in relax.analysis.free_vars(self.bindings[number].value):
                    readers[self.root(variable)].append(number)
        return readers

    def is_fusable(self, number: int) -> bool:
        """Whether a binding can be fused with a slice of what it reads."""
        value = self.bindings[number].value
        if operator_of(value) == _CALL_TIR:
            return value.args[0].name_hint in self.fused
        return operator_of(value) in (*FUSED, normalised.name)

    def takes_channels(self, number: int, root: relax.Var) -> bool:
        """Whether a binding can read a tensor as some channels of another one."""
        value = self.bindings[number].value
        if operator_of(value) != batch_norm_backward.name:
            return False
        return [each.same_as(root) for each in value.args] == [False, True, False, False, False]

    def way(self, root: relax.Var, moved: Mapping[relax.Var, list[Copy]]) -> list[Copy]:
        """The shortest way from a tensor to a copy that is saved; empty where there is none."""
        whole = [number for number in self.readers[root] if not self.is_fusable(number)]
        if not all(self.takes_channels(number, root) for number in whole):
            return []
        ways: list[list[Copy]] = [[copy] for copy in self.copies.get(root, ())]
        for way in ways:
            if whole and not way[-1].is_of_channels:
                continue
            reached = self.root(way[-1].result)
            if reached not in (root, *moved) and self.is_saved(reached):
                return way
            ways += [[*way, copy] for copy in self.copies.get(way[-1].result, ())]
        return []

    def is_saved(self, root: relax.Var) -> bool:
        """Whether a tensor that stays where it is is saved, whatever elementwise readers read."""
        return any(not self.is_fusable(number) for number in self.readers[root])

    @cached_property
    def moved(self) -> dict[relax.Var, list[Copy]]:
        """The tensors that are read elsewhere, each with the way to the copy."""
        found: dict[relax.Var, list[Copy]] = {}
        ends = {root: max(readers) for root, readers in self.readers.items()}
        roots = self.born.keys() & ends.keys()
        # A copy is younger: whether it stays is known before what it is a copy of.
        for root in sorted(roots, key=lambda each: self.born[each], reverse=True):
            way = self.way(root, found)
            if not way:
                continue
            copy = self.root(way[-1].result)
            # Less is alive, in bytes times bindings, though a copy may be read for longer.
            saved = variable_bytes(root) * (ends[root] - self.born[copy])
            if saved > variable_bytes(copy) * max(ends[root] - ends[copy], 0):
                found[root] = way
                ends[copy] = max(ends[root], ends[copy])
        return found


def fused_kernels(module: tvm.IRModule) -> frozenset[str]:
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
    function: str = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        saved = Saved(function, fused_kernels(module))
        if not saved.moved:
            return module
        with rebuilding(module, self.function) as builder:
            for number, binding in enumerate(saved.bindings):
                is_backward = number >= saved.forward
                value = binding.value
                value = _elsewhere(builder, saved, value) if is_backward else value
                bind(builder, binding.var, value)
        return builder.finalize()


def _elsewhere(builder: relax.BlockBuilder, saved: Saved, value: relax.Expr) -> relax.Expr:
    """A binding of the backward pass, computed from copies: each reader has slices of its own."""
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
    return replaced(value, instead)
