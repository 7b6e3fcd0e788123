"""Batch normalisations apply the activation after them, so that nothing lies between the two.

The normalised tensor has no other reader then: the gradient of such an activation reads its result.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.batch_norm import ACTIVATIONS, batch_norm
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bind, bindings_of, readers_of, rebuilding

Values = dict[relax.Var, relax.Expr]


def activated(function: relax.Function) -> dict[relax.Var, relax.Var]:
    """The activations that can be absorbed, each with the batch normalisation before it."""
    values: Values = {binding.var: binding.value for binding in bindings_of(function)}
    readers, found = readers_of(function), {}
    for variable, value in values.items():
        if operator_of(value) not in ACTIVATIONS or not isinstance(value.args[0], relax.Var):
            continue
        normal = values.get(value.args[0])
        if normal is None or not isinstance(normal, relax.TupleGetItem) or normal.index:
            continue
        source = normal.tuple_value
        if readers[value.args[0]] == 1 and operator_of(values.get(source)) == batch_norm.name:
            found[variable] = source
    return found


@dataclass(frozen=True)
class AbsorbActivation(Pass):
    """Lets batch normalisations of a training step apply what is after them.

    Attributes:
        function: name of the training step: one dataflow block.
    """

    name: ClassVar[str] = "absorb-activation"
    function: str = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        bindings = bindings_of(function)
        sources = activated(function)
        kinds = {sources[b.var]: operator_of(b.value) for b in bindings if b.var in sources}
        with rebuilding(module, self.function) as builder:
            for binding in bindings:
                value = binding.value
                if binding.var in kinds:
                    attrs = dict(value.attrs.items()) | {"activation": kinds[binding.var]}
                    value = batch_norm(*value.args, **attrs)
                elif binding.var in sources:
                    value = relax.TupleGetItem(sources[binding.var], 0)
                bind(builder, binding.var, value)
        return builder.finalize()
