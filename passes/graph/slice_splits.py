"""A split whose parts elementwise kernels read is as many slices, each a part of its kernel.

The gradient of a concat is a split: a kernel that copies every part. After it stand mostly the
gradients of rectifiers, which read each part once, and can as well read it where it lies. Where
sums read the parts they stay: slices would keep the whole alive until the last sum.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bind, bindings_of, readers_of, rebuilding

_READERS = ("relax.where",)


def sliceable(function: relax.Function) -> set[relax.Var]:
    """The splits of a function whose parts are each read once, where a slice is fused."""
    splits = {b.var for b in bindings_of(function) if operator_of(b.value) == "relax.split"}
    parts = {
        b.var: b.value.tuple_value
        for b in bindings_of(function)
        if isinstance(b.value, relax.TupleGetItem) and b.value.tuple_value in splits
    }
    readers, fused = readers_of(function), Counter[relax.Var]()
    for binding in bindings_of(function):
        if operator_of(binding.value) in _READERS:
            fused.update(set(relax.analysis.free_vars(binding.value)) & parts.keys())
    whole = {split for split in splits if readers[split]}
    return whole - {parts[part] for part in parts if not readers[part] == fused[part] == 1}


def slice_of(split: relax.Call, index: int) -> relax.Call:
    """One part of what is split."""
    data, axis = split.args[0], int(split.attrs.axis)
    axis %= len(data.ty.shape)
    sizes = [int(part.shape[axis]) for part in split.ty.fields]
    begin = sum(sizes[:index])
    return R.strided_slice(data, [axis], [begin], [begin + sizes[index]])


@dataclass(frozen=True)
class SliceSplits(Pass):
    """Makes slices of the splits of a training step.

    Attributes:
        function: name of the training step: one dataflow block.
    """

    name: ClassVar[str] = "slice-splits"
    function: str = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        sliced = sliceable(function)
        if not sliced:
            return module
        values = {b.var: b.value for b in bindings_of(function) if b.var in sliced}
        with rebuilding(module, self.function) as builder:
            for binding in bindings_of(function):
                value = binding.value
                if binding.var in sliced:
                    continue
                if isinstance(value, relax.TupleGetItem) and value.tuple_value in sliced:
                    value = slice_of(values[value.tuple_value], value.index)
                bind(builder, binding.var, value)
        return builder.finalize()
