"""Gradients of a block of a weight's output channels, and of nothing else of it.

Sparse update (Lin et al., "On-Device Training Under 256KB Memory", 2022). Where a layer computes
`y = layer(x, W)`, the graph that is differentiated says instead

    part = layer(no_grad(x), S)       S stands for the block of W that is trained
    y    = attach(layer(x, W), part)

with `attach` the first argument's value, whose adjoint goes to both: all of it to the layer, and
the block's channels of it to `part`. So the layer's own gradient rule gives the gradient of S, at
the cost of that many channels. Then `attach` gives way to its first argument, and `part`, which
nothing reads any more, is dropped: the forward pass stays as it was, and copies nothing.
"""

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.core.errors import UnsupportedError
from odtc.core.ir.relax_calls import operator_of
from odtc.core.specs import Block
from odtc.dialect.gradient.attach import attach
from odtc.frontend.backward.rebuild import builder_with_kernels, replay_body

_CONVOLUTIONS = {
    "relax.nn.conv2d": R.nn.conv2d,
    "relax.nn.conv3d": R.nn.conv3d,
}


class SparseGradients:
    """A replay rule that gives blocks of weights gradients of their own.

    Args:
        blocks: the weights that are trained in part, and the part.

    Attributes:
        parts: for each such weight the variable whose gradient is that of the block.
    """

    def __init__(self, blocks: Mapping[relax.Var, Block]) -> None:
        self.parts = {
            weight: relax.Var(
                weight.name, relax.TensorType(_shape_in(block, weight), weight.ty.dtype)
            )
            for weight, block in blocks.items()
        }
        # Weights, and what a layer reads of them: the block, and what stands for it.
        self._read = {weight: (block, self.parts[weight]) for weight, block in blocks.items()}

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the layer with its part attached, or None where the binding is no such layer.

        Raises:
            UnsupportedError: a weight is read by an operator whose channels are not known.
        """
        call = binding.value
        if not isinstance(call, relax.Call):
            return None
        weight = next((arg for arg in call.args if arg in self._read), None)
        if weight is None:
            return None
        block, part = self._read[weight]
        name = getattr(call.op, "name", "")
        view = _view(call, name, block, part)
        if view is not None:
            self._read[binding.var] = (block, builder.emit(view))
            return None
        axis = _channel_axis(call, name)
        if name in _CONVOLUTIONS:
            result = _convolution(builder, call, _CONVOLUTIONS[name], block, part)
        else:
            result = relax.Call(call.op, [no_grad(call.args[0]), part], call.attrs)
        operands = [builder.emit(call), builder.emit(builder.normalize(result))]
        return attach(*operands, axis=axis, start=block.start)

    def detached(self, module: tvm.IRModule, name: str) -> tvm.IRModule:
        """Takes from an adjoint what was added for its sake: marks, parts, and their variables.

        Args:
            module: what the gradient pass gave.
            name: of the adjoint in it.
        """
        if not self.parts:
            return module
        adjoint = module[name]
        builder = builder_with_kernels(module)
        with builder.function(name, list(adjoint.params)):
            with builder.dataflow():
                replay_body(builder, adjoint, _detach)
            builder.emit_func_output(adjoint.body.body)
        result = builder.finalize()
        used = relax.analysis.remove_all_unused(result[name])
        params = used.params[: len(used.params) - len(self.parts)]
        function = relax.Function(params, used.body, used.ret_ty, True, used.attrs)
        result.update_func(result.get_global_var(name), function)
        return result


def _detach(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: the value of a mark is its first argument."""
    call = binding.value
    return call.args[0] if operator_of(call) == attach.name else None


def _view(call: relax.Call, name: str, block: Block, part: relax.Expr) -> relax.Expr | None:
    """A view of the weight, applied to the part; None where the call is no view.

    A matrix may be transposed, and a convolution's weight may get a dimension after its channels.
    """
    if name == "relax.permute_dims":
        return relax.Call(call.op, [part], call.attrs)
    shape = tuple(int(size) for size in call.ty.shape)
    if name == "relax.reshape" and block.axis == 0:
        return R.reshape(part, block.shape_in(shape))
    return None


def _channel_axis(call: relax.Call, name: str) -> int:
    """The axis of a layer's result that its weight's output channels are."""
    if name == "relax.matmul":
        return len(call.ty.shape) - 1
    if name in _CONVOLUTIONS:
        return 1
    raise UnsupportedError(
        f"no sparse update of a weight that is read by {name or call.op}",
        hint="train all of it, or freeze it",
    )


def _convolution(builder, call: relax.Call, convolve, block: Block, part: relax.Expr) -> relax.Call:
    """The convolution of those channels: of the data of their groups alone, if there are groups."""
    data, attrs, groups = call.args[0], call.attrs, int(call.attrs.groups)
    if groups > 1:
        width = int(call.args[1].ty.shape[1])
        in_group = int(call.ty.shape[1]) // groups
        first, groups = block.start // in_group, max(1, block.size // in_group)
        data = builder.emit(R.strided_slice(data, [1], [first * width], [(first + groups) * width]))
    return convolve(
        no_grad(data),
        part,
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
        groups=groups,
        data_layout=attrs.data_layout,
        kernel_layout=attrs.kernel_layout,
        out_layout=attrs.out_layout,
        out_dtype=attrs.out_dtype or None,
    )


def _shape_in(block: Block, weight: relax.Var) -> tuple[int, ...]:
    return block.shape_in(tuple(int(size) for size in weight.ty.shape))
