"""The bits of numbers, read as numbers of another type of the same size."""

from tvm import relax, te, tirx

from odtc.frontend.relax_ops.define import define


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


bit_cast = define(
    "bit_cast",
    _kernel,
    infer=lambda call: relax.TensorType(call.args[0].ty.shape, str(call.attrs["dtype"])),
)
