"""Operators that read and write by index."""

import numpy as np

from tests.numeric.conftest import IMAGE, ints, node_model, text_model, weight


def _indices(high: int, *shape: int) -> np.ndarray:
    """Indices from both ends, some of them more than once."""
    return np.random.default_rng(shape).integers(-high, high, shape)


def _places(high: tuple[int, ...], count: int) -> np.ndarray:
    """Distinct places in the first dimensions."""
    rng = np.random.default_rng(count)
    flat = rng.choice(int(np.prod(high)), count, replace=False)
    return np.stack(np.unravel_index(flat, high), axis=-1).astype(np.int64)


def _orders(size: int, count: int) -> np.ndarray:
    """For each of `count` columns, distinct places along the first dimension."""
    rng = np.random.default_rng(count)
    return np.stack([rng.permutation(size)[:2] - size * (at % 2) for at in range(count)], axis=1)


CASES = {
    "Gather": node_model("Gather", IMAGE, constants={"i": _indices(4, 2, 3)}, axis=1),
    "Gather-first": node_model("Gather", (5, 3, 70), constants={"i": _indices(5, 6)}, axis=0),
    "Gather-last": node_model("Gather", IMAGE, constants={"i": _indices(6, 9)}, axis=-1),
    "Gather-one": node_model("Gather", IMAGE, constants={"i": np.array(-2)}, axis=2),
    "Gather-range": node_model("Gather", IMAGE, constants={"i": ints(-3, -2)}, axis=1),
    "GatherElements": node_model(
        "GatherElements", (3, 4, 5), constants={"i": _indices(4, 3, 6, 5)}, axis=1
    ),
    "GatherND": node_model("GatherND", (3, 4, 5), constants={"i": _indices(3, 3, 2, 2)}),
    "GatherND-batch": node_model(
        "GatherND", (3, 4, 5, 2), constants={"i": _indices(4, 3, 6, 1)}, batch_dims=1
    ),
    "GatherND-element": node_model("GatherND", (3, 4), constants={"i": _indices(3, 6, 1, 2)}),
    "ScatterElements": node_model(
        "ScatterElements", (4, 5), constants={"i": _orders(4, 5)}, parameters={"w": weight(2, 5)}
    ),
    "ScatterElements-add": node_model(
        "ScatterElements",
        (4, 5),
        constants={"i": _indices(5, 4, 7)},
        parameters={"w": weight(4, 7)},
        axis=1,
        reduction="add",
    ),
    "ScatterND": node_model(
        "ScatterND",
        (3, 4, 5),
        constants={"i": _places((3, 4), 6)},
        parameters={"w": weight(6, 5)},
    ),
    "ScatterND-add": node_model(
        "ScatterND",
        (3, 4, 80),
        constants={"i": _indices(3, 5, 1)},
        parameters={"w": weight(5, 4, 80)},
        reduction="add",
    ),
    **{
        f"ScatterElements-{reduction}": node_model(
            "ScatterElements",
            (4, 5),
            constants={"i": _indices(5, 4, 7)},
            parameters={"w": weight(4, 7)},
            opset=18,
            axis=1,
            reduction=reduction,
        )
        for reduction in ("mul", "min", "max")
    },
    **{
        f"ScatterND-{reduction}": node_model(
            "ScatterND",
            (3, 4, 5),
            constants={"i": _indices(3, 5, 2)},
            parameters={"w": weight(5, 5)},
            opset=18,
            reduction=reduction,
        )
        for reduction in ("mul", "min", "max")
    },
    "TensorScatter": text_model(
        "y = TensorScatter (h, w, i)",
        (3, 2, 5, 4),
        parameters={"w": weight(3, 2, 2, 4)},
        constants={"i": ints(0, 3, 1)},
        opset=24,
    ),
    "TensorScatter-circular": text_model(
        'y = TensorScatter <mode = "circular", axis = 1> (h, w, i)',
        (2, 5, 3),
        parameters={"w": weight(2, 3, 3)},
        constants={"i": ints(4, 1)},
        opset=24,
    ),
    "TensorScatter-start": node_model(
        "TensorScatter", (2, 3, 5), parameters={"w": weight(2, 3, 2)}, opset=24, axis=-1
    ),
    "Trilu": node_model("Trilu", (3, 4, 5), constants={"k": np.array(1)}, upper=0),
    "Trilu-upper": node_model("Trilu", (3, 4, 5), constants={"k": np.array(-1)}),
}
