"""The text of a product: the same for every kernel that computes the same, in any model.

It names the family, its numbers, how its first operand is transformed as it is read, the shapes
and dtypes of all tensors and what is fused after the product. It leaves out names of variables,
which no two models share.
"""

from tvm import tirx

from odtc.backends.decisions import MachineModel
from odtc.backends.kernels.product.fused import FusedProduct


def workload_of(product: FusedProduct, machine: MachineModel) -> str:
    """The text of a product on a machine that multiplies numbers of some kind."""
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    dtypes = [str(each.dtype) for each in product.parameters]
    arguments = [
        tirx.decl_buffer(shape, dtype, f"arg{number}")
        for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    at = [tirx.Var(f"i{axis}", "int64") for axis in range(len(shapes[-1]))]
    tail = product.product(arguments).tail(at, tirx.Var("x", "float32"))
    tensors = [
        f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    numbers = ",".join(map(str, product.numbers))
    operands = ",".join(f"arg{position}" for position in product.operands)
    read = f"; normalised {product.normal.activation}".rstrip() if product.normal else ""
    read += f"; coded {product.coded.text}" if product.coded else ""
    of = f"{product.family}({operands}; {numbers}{read}) of {machine.multiplies}"
    return f"{of}: {' '.join(tensors)} = {' '.join(str(tail).split())}"
