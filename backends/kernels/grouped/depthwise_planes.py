"""Planes that depthwise kernels read: their windows, and the bands that these are staged in."""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import Readable, load
from odtc.backends.kernels.common.vectors import (
    ramp,
    splat,
)
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.pool.bands import (
    Band,
    decided,
    usual_band,
)
from odtc.backends.kernels.pool.planes import Read, Window, fill, pair
from odtc.backends.kernels.product.tile import Machine

# Numbers of an axis in the mark of a product.
_NUMBERS = 6


def window_of(numbers: Sequence[int]) -> Window:
    """The window of a kernel, from the numbers in the mark of its product."""
    axes = [ConvolutionAxis(*numbers[:_NUMBERS]), ConvolutionAxis(*numbers[_NUMBERS:])]
    names = ("size", "out", "kernel", "stride", "dilation", "pad")
    return Window(*(pair([getattr(axis, name) for axis in axes]) for name in names))


def sizes_of(tensor: Readable) -> list[int]:
    """A tensor's sizes as numbers."""
    return [int(size) for size in tensor.shape]


def divided(number: ir.Expr, by: int) -> tuple[ir.Expr, ir.Expr]:
    """Quotient and rest of a number that is bound once."""
    bound = T.bind(number)
    return bound // by, bound % by


def plane_reader(tensor: Readable, n: ir.Expr, channel: ir.Expr) -> Read:
    """Reads a plane of a tensor as float32, whatever it is stored in."""
    return lambda row, column, width: load(tensor, [n, channel, row, ramp(column, width)])


def zero_bands(lines: int, size: int, machine: Machine) -> tirx.Buffer:
    """Bands; where a row is loaded once, one vector more may be read behind each."""
    lanes = machine.lanes
    vectors = -(-size // lanes) + bool(machine.blocked)
    buffer = T.sblock_alloc_buffer((lines, vectors * lanes), "float32")
    fill(buffer, tirx.const(0.0, "float32"), lanes)
    return buffer


def zero_vector(width: int) -> ir.Expr:
    """As many zeros."""
    return splat(tirx.const(0.0, "float32"), width)


def band_of_image(window: Window, machine: Machine) -> Band:
    """The band that results of the forward kernel, and of the weight gradient, read."""
    shifts = [tap.shift for tap in window.taps()]
    usual = usual_band(
        window.image,
        window.stride,
        window.out,
        shifts,
        multiple=pitch_multiple(machine),
        lead=row_lead(window, machine),
    )
    return decided(usual, machine)


def pitch_multiple(machine: Machine) -> int:
    """Of which the pitch of a band's rows is a multiple.

    A phone's core adds large constants to an address only in whole vectors: with such rows all taps
    of a column share a register, where each would take an addition of its own.
    """
    return machine.lanes if machine.first_bytes else 1


def row_lead(window: Window, machine: Machine) -> int:
    """Of which what is in front of a band's rows is a multiple.

    Taps that are not shifted, two of three where a stride of two is taken out, are loads of whole
    vectors then, whose addresses are constants beside a register. Without a stride one of three is,
    wherever rows begin; where rows are loaded once, it is the first tap's vector that is whole.
    """
    is_phone = machine.first_bytes > 0 and not machine.blocked
    return machine.lanes if is_phone and window.stride[1] > 1 else 1


def loads_once(columns: int, machine: Machine) -> bool:
    """Whether rows of a band are loaded once: where a load stops multiply-adds, and rows go on."""
    return machine.blocked > 0 and columns >= 2 * machine.lanes


def rows_overlap(window: Window, machine: Machine) -> bool:
    """Whether a phone's core reads rows of an image for several rows of results."""
    return machine.first_bytes > 0 and window.stride[0] == 1
