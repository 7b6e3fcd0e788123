"""The recurrent cells that have kernels: what the graph and the kernels have to agree on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A recurrent cell.

    Attributes:
        gates: number of gates; their weights and projections lie one after the other.
        states: number of states.
        saved: tensors that the backward pass reads: of each, how many times the hidden size.
        extra: another result of the backward pass, measured likewise.
        has_bias: whether the recurrent products have a bias of their own.
    """

    gates: int
    states: int
    saved: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    has_bias: bool = False


# Gates are in ONNX's order: z, r, h; and i, o, f, c. A GRU saves its gates, and one that resets
# after the product also what the reset gate scales; an LSTM its gates, and the cell's old state.
CELLS = {
    "gru": Cell(3, 1, saved=(3,), extra=(1,)),
    "gru-after": Cell(3, 1, saved=(3, 1), extra=(3,), has_bias=True),
    "lstm": Cell(4, 2, saved=(4, 1)),
    "relu": Cell(1, 1),
    "tanh": Cell(1, 1),
}
