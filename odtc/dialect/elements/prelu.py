"""The rectifier with a trained slope (He et al., "Delving Deep into Rectifiers", 2015)."""

from tvm import relax, te, tirx, topi

from odtc.dialect.adjoints import fitted
from odtc.dialect.attributes import NoAttributes
from odtc.dialect.operator import RelaxOperator


def _kernel(data: te.Tensor, slope: te.Tensor) -> te.Tensor:
    """The input where it is positive, elsewhere the input times the slope, which broadcasts."""
    return topi.where(topi.greater(data, tirx.const(0, data.dtype)), data, data * slope)


def _data_gradient(grad: te.Tensor, data: te.Tensor, slope: te.Tensor) -> te.Tensor:
    return topi.where(topi.greater(data, tirx.const(0, data.dtype)), grad, grad * slope)


def _slope_gradient(grad: te.Tensor, data: te.Tensor) -> te.Tensor:
    return te.compute(
        data.shape,
        lambda *i: grad(*i) * tirx.min(data(*i), tirx.const(0, data.dtype)),
        name="prelu_slope",
    )


def _gradient(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    data, slope = call.args
    by_data = builder.emit_te(_data_gradient, grad, data, slope)
    by_slope = builder.emit_te(_slope_gradient, grad, data)
    return [by_data, fitted(builder, by_slope, slope)]


# Of the input and the slope.
prelu = RelaxOperator(
    name="odtc.prelu", attributes=NoAttributes, kernel=_kernel, arity=2, gradient=_gradient
)
