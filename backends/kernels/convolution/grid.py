"""How a convolution walks over its image: staged with its padding, every tap is a plain shift.

An image is copied once into rows with zeros around it. In the copy all outputs of a tap are
neighbours: output `o` reads position `o + shift`, whatever its row, so that vectors run through
whole rows and no position is tested in the inner loop. Where the window steps by more than one, a
copy per remainder (a phase) keeps that so. At the ends of rows a few results are computed and
not used.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm import ir

Count = ir.Expr | int
Of = Callable[[Count], Count]


@dataclass(frozen=True)
class Staged:
    """One axis of an image as it is staged: position `g` of phase `f` is `g * step + f - before`.

    Attributes:
        size: of the image.
        step: elements from one position to the next, and number of phases.
        before: zeros in front.
        span: positions.
    """

    size: int
    step: int
    before: int
    span: int

    def inside(self, phase: int) -> tuple[int, int]:
        """The positions `[first, end)` of a phase that lie in the image."""
        first = -(-(self.before - phase) // self.step)
        end = -(-(self.size + self.before - phase) // self.step)
        first = min(max(first, 0), self.span)
        return first, min(max(end, first), self.span)


@dataclass(frozen=True)
class Walk:
    """One axis of a convolution over a staged axis.

    Attributes:
        staged: the axis of the image.
        taps: number of taps.
        out: number of results.
        weight: from a tap to its place in the kernel.
        phase: from a tap to the phase it reads.
        shift: from a tap to its distance from a result's position.
        target: from a result to its place in the output.
    """

    staged: Staged
    taps: int
    out: int
    weight: Of
    phase: Of
    shift: Of
    target: Of

    @property
    def reach(self) -> int:
        """The farthest that a tap reads from a result's position."""
        return max((int(self.shift(tap)) for tap in range(self.taps)), default=0)

    @property
    def phases(self) -> set[int]:
        """The phases that are read."""
        return {int(self.phase(tap)) for tap in range(self.taps)}


@dataclass(frozen=True)
class ConvolutionAxis:
    """One spatial axis of a convolution.

    Attributes:
        size: of the image.
        kernel: taps.
        stride: from one output to the next.
        dilation: from one tap to the next.
        pad: zeros in front of the image.
        out: outputs.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    out: int

    @classmethod
    def points(cls, size: int) -> "ConvolutionAxis":
        """An axis along which every output is of one element, in its place."""
        return cls(size, 1, 1, 1, 0, size)

    @property
    def numbers(self) -> list[int]:
        """The fields, in order."""
        return [self.size, self.kernel, self.stride, self.dilation, self.pad, self.out]

    @property
    def is_point(self) -> bool:
        """Whether each output is of one element of the image, in its place."""
        return self.kernel == 1 and self.stride == 1 and self.pad == 0 and self.out == self.size

    def forward(self) -> Walk:
        """`y[o] = sum over t of x[o * stride + t * dilation - pad] * w[t]`."""
        step, gap = self.stride, self.dilation
        span = self.out + (self.kernel - 1) * gap // step
        if step == 1:
            # The zeros in front of a row are those after the row before, too.
            behind = max(span - self.size - max(self.pad, 0), 0)
            span -= min(max(self.pad, 0), behind, span - self.out)
        return Walk(
            Staged(self.size, step, self.pad, span),
            self.kernel,
            self.out,
            weight=lambda t: t,
            phase=lambda t: t * gap % step,
            shift=lambda t: t * gap // step,
            target=lambda o: o,
        )

    def backward(self) -> list[Walk]:
        """The gradient of the data, each remainder of its index by the stride on its own.

        `dx[i] = sum over t of dy[(i + pad - t * dilation) / stride] * w[t]`, where that divides. A
        stride and a dilation at once are not written this way.
        """
        if self.stride == 1:
            back = (self.kernel - 1) * self.dilation - self.pad
            mirrored = ConvolutionAxis(
                self.out, self.kernel, 1, self.dilation, back, self.size
            ).forward()
            return [replace(mirrored, weight=lambda t: self.kernel - 1 - t)]
        pieces = [self.remainder(which) for which in range(self.stride)]
        first = min(start - max(taps - 1, 0) for start, _, taps in pieces)
        last = max(start + out for start, out, _ in pieces)
        staged = Staged(self.out, 1, -first, last - first)
        return [
            _piece(self, staged, which, first) for which, (_, out, _) in enumerate(pieces) if out
        ]

    def remainder(self, which: int) -> tuple[int, int, int]:
        """First quotient, number of elements and taps of the elements `i + pad = which`."""
        start = -(-(self.pad - which) // self.stride)
        end = (self.size - 1 + self.pad - which) // self.stride
        return start, max(end - start + 1, 0), len(range(which, self.kernel, self.stride))


def _piece(axis: ConvolutionAxis, staged: Staged, which: int, first: int) -> Walk:
    """Elements `which + stride * u - pad`: their tap `j` reads the output `u - j`.

    The staged axis begins with the output `first`.
    """
    start, out, taps = axis.remainder(which)
    return Walk(
        staged,
        taps,
        out,
        weight=lambda j: which + axis.stride * j,
        phase=lambda _: 0,
        shift=lambda j: start - first - j,
        target=lambda o: (start + o) * axis.stride + which - axis.pad,
    )
