"""The bits of numbers, read as numbers of another type of the same size."""

from dataclasses import dataclass

from tvm import relax, te, tirx

from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Reading:
    """How bits are read.

    Attributes:
        dtype: name of the type.
    """

    dtype: str


def _kernel(tensor: te.Tensor, dtype: str) -> te.Tensor:
    """Another reading of the same bits; a boolean has those of 0 or 1."""
    return te.compute(
        tensor.shape,
        lambda *i: (
            tensor(*i).astype(dtype)
            if "bool" in (str(tensor.dtype), dtype)
            else tirx.reinterpret(dtype, tensor(*i))
        ),
        name="bit_cast",
    )


def _infer(call: relax.Call) -> relax.Type:
    return relax.TensorType(call.args[0].ty.shape, bit_cast.read(call).dtype)


bit_cast = RelaxOperator(
    name="odtc.bit_cast", attributes=Reading, infer=_infer, kernel=_kernel, gradient=None
)
