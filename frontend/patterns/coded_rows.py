"""Rows of a matrix that is kept as codes are read as codes, and dequantised alone.

An embedding reads some rows in a step: of a matrix that is dequantised in front of it all others
would be computed, too, and lie in the arena as floats.

    take(dequantised(codes, zero, scale))  →  dequantised(take(codes), take(zero), take(scale))
"""

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.dialect.elements.dequantised import dequantised
from odtc.frontend.backward.rebuild import replayed


def coded_rows(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """The module with a function that gathers rows of codes.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
    """
    (block,) = module[name].body.blocks
    made = {
        binding.var: binding.value
        for binding in block.bindings
        if is_call(binding.value, dequantised.name)
    }

    def rule(builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        call = binding.value
        if not is_call(call, "relax.take") or call.args[0] not in made:
            return None
        # Blocks of several rows have a scale for all of them.
        whole, table = made[call.args[0]], dequantised.read(made[call.args[0]])
        if call.attrs.axis is None or int(call.attrs.axis) != 0 or table.blocks[0] != 1:
            return None
        rows, lead = call.args[1], [int(size) for size in call.args[1].ty.shape]

        def of_rows(tensor: relax.Expr) -> relax.Expr:
            sizes = [int(size) for size in tensor.ty.shape]
            if sizes[0] == 1:
                # One for all rows: as many dimensions as what is read.
                return builder.emit(R.reshape(tensor, [1] * len(lead) + sizes[1:]))
            return builder.emit(relax.Call(call.op, [tensor, rows], call.attrs))

        return dequantised(
            *map(of_rows, whole.args),
            stored=table.stored,
            shape=[*lead, *table.shape[1:]],
            blocks=[1] * len(lead) + [*table.blocks[1:]],
        )

    return replayed(module, name, rule) if made else module
