"""Packing problems: the inputs of MiniMalloc, and drawn training steps."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from odtc.passes.memory.packing.csv_file import read_buffers
from odtc.passes.memory.packing.problem import Buffer

FOLDER = Path(__file__).parent / "challenging"
# What all plans of `A` to `K` have to keep.
CAPACITY = 1_048_576
CHALLENGING = tuple("ABCDEFGHIJK")
# Buffers of the drawn steps; a step of ResNet-152 has some thousands.
TRAINING = (1_000, 5_000, 30_000)

# Bytes of the first activations; the last ones are smaller by this power of two.
_FIRST, _FALL = 1 << 20, 6


def training_step(buffers: int, seed: int = 0) -> list[Buffer]:
    """The buffers of a drawn training step.

    Each operator of the forward pass makes an activation, which waits for its operator of the
    backward pass or, as two in five do, is read by one soon and gone. Activations get smaller, as
    in a convolutional network. Each operator of the backward pass makes a gradient, which is read
    by the next ones. All have a workspace while they run.

    Args:
        buffers: how many, a multiple of 4.
        seed: of what is drawn.
    """
    draw = random.Random(seed)
    operators = buffers // 4
    end, found = 2 * operators, []
    for time in range(operators):
        back = end - 1 - time
        usual = _FIRST * 2.0 ** (-_FALL * time / operators)
        size = max(64, int(usual * draw.choice((0.25, 0.5, 1, 1, 1, 2, 4))))
        soon = min(end, time + draw.choice((1, 2, 2, 4, 8)))
        last = back + 1 if draw.random() < 0.6 else soon
        read = min(end, back + draw.choice((1, 2, 2, 3, 5, 9)))
        found += [
            Buffer(f"activation{time}", time, last, size),
            Buffer(f"workspace{time}", time, time + 1, int(size * draw.random() * 2) + 1),
            Buffer(f"gradient{time}", back, read, size),
            Buffer(f"back-workspace{time}", back, back + 1, int(size * draw.random() * 3) + 1),
        ]
    return found


INPUTS: dict[str, Callable[[], list[Buffer]]] = {
    "input.12": partial(read_buffers, FOLDER / "input.12.csv"),
    **{name: partial(read_buffers, FOLDER / f"{name}.{CAPACITY}.csv") for name in CHALLENGING},
    **{f"training-{count}": partial(training_step, count) for count in TRAINING},
}
