"""Batch normalisations apply the activation behind them, so that nothing lies between the two.

The normalised tensor has no other reader then: the gradient of such an activation reads its result.
"""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import ir, relax

from odtc.core.kernel_marks import ACTIVATIONS, BATCH_NORM
from odtc.passes.contract import Pass

Values = dict[relax.Var, relax.Expr]


def name_of(value: relax.Expr | None) -> str:
    """Name of the Relax operator that an expression calls, or nothing."""
    return getattr(getattr(value, "op", None), "name", "")


def bindings_of(function: relax.Function) -> list[relax.Binding]:
    """All bindings of a function without branches, in order."""
    return [binding for block in function.body.blocks for binding in block.bindings]


def readers_of(function: relax.Function) -> Counter[relax.Var]:
    """How many bindings read each variable; the result counts as one."""
    readers = Counter(relax.analysis.free_vars(function.body.body))
    for binding in bindings_of(function):
        readers.update(set(relax.analysis.free_vars(binding.value)))
    return readers


def activated(function: relax.Function) -> dict[relax.Var, relax.Var]:
    """The activations that can be absorbed, each with the batch normalisation before it."""
    values: Values = {binding.var: binding.value for binding in bindings_of(function)}
    readers, found = readers_of(function), {}
    for variable, value in values.items():
        if name_of(value) not in ACTIVATIONS or not isinstance(value.args[0], relax.Var):
            continue
        normal = values.get(value.args[0])
        if normal is None or not isinstance(normal, relax.TupleGetItem) or normal.index:
            continue
        source = normal.tuple_value
        if readers[value.args[0]] == 1 and name_of(values.get(source)) == BATCH_NORM:
            found[variable] = source
    return found


@dataclass(frozen=True)
class AbsorbActivation(Pass):
    """Lets batch normalisations of a training step apply what is behind them.

    Attributes:
        function: name of the training step: one dataflow block.
    """

    name: ClassVar[str] = "absorb-activation"
    function: str

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        bindings = bindings_of(function)
        sources = activated(function)
        kinds = {sources[b.var]: name_of(b.value) for b in bindings if b.var in sources}
        functions = module.functions_items()
        others = {name: f for name, f in functions if name.name_hint != self.function}
        builder = relax.BlockBuilder(tvm.IRModule(others))
        with builder.function(self.function, function.params):
            with builder.dataflow():
                for binding in bindings:
                    value = binding.value
                    if binding.var in kinds:
                        attrs = dict(value.attrs.items()) | {"activation": kinds[binding.var]}
                        attrs = ir.make_node("ir.DictAttrs", **attrs)
                        value = relax.Call(value.op, value.args, attrs)
                    elif binding.var in sources:
                        value = relax.TupleGetItem(sources[binding.var], 0)
                    value = builder.normalize(value)
                    builder.emit_normalized(relax.VarBinding(binding.var, value))
            builder.emit_func_output(function.body.body)
        return builder.finalize()
