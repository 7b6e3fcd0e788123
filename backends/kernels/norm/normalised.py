"""Tensors that are normalised where they are read.

The mean and the scale of each channel are known. A kernel that copies its operand before it
computes with it, as convolutions do, normalises each element as it copies it; what the elements
become is never in memory. Around an image the copies have zeros: they are not normalised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.common.activations import activated
from odtc.backends.kernels.common.operand import channels_of, shape_of, stored
from odtc.backends.kernels.common.places import Readable, rounded
from odtc.core.ir.relax_calls import is_call
from odtc.dialect.images.batch_norm import normalised

# How many tensors a normalised one is read from: the data, and four numbers of each channel.
PARTS = 5

# Shape and dtype of a kernel's argument.
Argument = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Normal:
    """The normalisation of an operand as it is read.

    Attributes:
        activation: name of an operator of `ACTIVATIONS` that follows it, or ''.
        held: channels that the data has.
        first: the first of them that is read.
    """

    activation: str
    held: int
    first: int = 0

    @property
    def mark(self) -> list[str | int]:
        """Its value in the mark of a product."""
        return [self.activation, self.held, self.first]

    def arguments(self, shape: Sequence[int], dtype: str) -> dict[str, Argument]:
        """Shapes and dtypes of the tensors that replace the operand, by name.

        Args:
            shape: of the operand.
            dtype: of the data.
        """
        batch, channels, *rest = shape
        found: dict[str, Argument] = {"x": ((batch, self.held, *rest), dtype)}
        for name in ("mean", "gamma", "scale", "beta"):
            found[name] = (channels,), "float32"
        return found

    def read(self, tensors: Sequence[Any]) -> list[Readable]:
        """The operands, of which the first is given as `PARTS` tensors: see `Normalised`."""
        return [Normalised(*tensors[:PARTS], normal=self), *tensors[PARTS:]]


@dataclass(frozen=True)
class Normalised:
    """A tensor `act((data - mean) * (gamma * scale) + beta)`, by channel, the second dimension.

    Attributes:
        data: the tensor that is stored, of which it may be some channels.
        mean, gamma, scale, beta: of each channel.
        normal: the rest.
    """

    data: Readable
    mean: Readable
    gamma: Readable
    scale: Readable
    beta: Readable
    normal: Normal

    @property
    def shape(self) -> list[Any]:
        """The shape as it is read."""
        batch, _, *rest = self.data.shape
        return [batch, self.mean.shape[0], *rest]

    def __getitem__(self, at: Sequence[ir.Expr]) -> ir.Expr:
        n, c, *rest = at
        value = rounded(tirx.convert(self.data[(n, c + self.normal.first, *rest)]), "float32")
        number = partial(tirx.const, dtype=value.ty.dtype)
        lanes = value.ty.dtype.lanes

        def whole(each: ir.Expr) -> ir.Expr:
            return each if each.ty.dtype.lanes == lanes else tirx.Broadcast(each, lanes)

        mean, gamma, scale, beta = (
            tirx.convert(each[(c,)]) for each in (self.mean, self.gamma, self.scale, self.beta)
        )
        normal = (value - whole(mean)) * whole(gamma * scale) + whole(beta)
        return activated(self.normal.activation, normal, number)


def operands_of(
    builder: relax.BlockBuilder, expressions: Sequence[relax.Expr]
) -> tuple[list[relax.Expr], Normal | None]:
    """The tensors that a kernel reads, as they are stored, and its first operand's `Normal`."""
    first, *rest = expressions
    source = builder.lookup_binding(first) if isinstance(first, relax.Var) else None
    others = [stored(builder, each) for each in rest]
    if not is_call(source, normalised.name):
        return [stored(builder, first), *others], None
    data, *per_channel = source.args
    data, begin = channels_of(builder, data)
    normal = Normal(normalised.read(source).activation, shape_of(data)[1], begin)
    return [data, *per_channel, *others], normal


def read_operands(normal: Normal | None, tensors: Sequence[Any]) -> list[Readable]:
    """The operands of a kernel, of its tensors."""
    return normal.read(tensors) if normal else list(tensors)


def normalised_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """The rule for what no kernel took in: elementwise kernels are fused with what reads them."""
    return {normalised.name: _lower}


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    shape = shape_of(call)
    normal = Normal(normalised.read(call).activation, shape[1])

    def kernel(*tensors: te.Tensor) -> te.Tensor:
        (read,) = normal.read(tensors)
        sizes = [tirx.const(size, "int64") for size in shape]
        return te.compute(sizes, lambda *at: read[at], "normalised")

    return builder.call_te(kernel, *call.args, primfunc_name_hint="normalised")
