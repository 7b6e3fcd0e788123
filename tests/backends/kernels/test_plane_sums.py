"""Sums and means over planes that no vector divides, against numpy, and which have the kernels."""

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

from odtc.backends.family.cpu import plane_sum_rules
from odtc.backends.kernels.rows.plane_sums import COLLAPSE, MEAN, plane_means, plane_sums
from odtc.backends.legalize import Legalize
from tests.backends.products.guarded import run_guarded

# A vector and no more, vectors without a rest, fewer and more than a sum is kept in, and a rest of
# each size.
PLANES = [(2, 2), (1, 5), (3, 5), (7, 5), (13, 13), (5, 27), (9, 15), (8, 33)]
CASES = [(plane, lanes) for plane in PLANES for lanes in (4, 16) if plane[0] * plane[1] >= lanes]


@pytest.mark.parametrize(("plane", "lanes"), CASES)
@pytest.mark.parametrize("samples", [1, 3])
def test_against_numpy(plane: tuple[int, int], samples: int, lanes: int) -> None:
    size = plane[0] * plane[1]
    x = np.random.default_rng(0).standard_normal((samples, 3, *plane)).astype(np.float32)
    (found,) = run_guarded(plane_sums(x.shape, (1, 3, 1, 1), lanes), [x])
    wanted = x.astype(np.float64).sum((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * samples * size)
    for out in ((samples, 3), (samples, 3, 1, 1)):
        (found,) = run_guarded(plane_means(x.shape, out, lanes), [x])
        wanted = x.astype(np.float64).mean((2, 3)).reshape(out)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_what_is_not_a_number_counts_once() -> None:
    """Elements that the last vector reads again are left out, whatever they are."""
    x = np.ones((1, 2, 1, 6), np.float32)
    x[0, 0, 0, 2] = np.inf
    (found,) = run_guarded(plane_sums(x.shape, (2,), 4), [x])
    assert found.tolist() == [np.inf, 6.0]


@pytest.mark.parametrize(
    ("shape", "out", "lanes", "has"),
    [
        ((1, 64, 111, 111), (1, 64, 1, 1), 4, True),
        ((1, 64, 111, 111), (64, 1, 1), 4, True),
        ((2, 8, 7), (8, 1), 4, True),
        # Vectors of nine, which x86 has, divide it; and so do vectors of four.
        ((1, 64, 111, 111), (1, 64, 1, 1), 16, False),
        ((1, 64, 28, 28), (1, 64, 1, 1), 4, False),
        # Not by channel; a plane of less than a vector; no plane.
        ((3, 3, 7, 7), (3, 1, 7, 7), 4, False),
        ((3, 3, 7, 7), (1, 1, 1, 1), 4, False),
        ((3, 1, 7, 7), (1, 1, 1, 1), 4, False),
        ((3, 3, 1, 3), (1, 3, 1, 1), 4, False),
        ((3, 5), (1, 5), 4, False),
    ],
)
def test_which_sums_have_the_kernel(shape, out, lanes: int, has: bool) -> None:
    names = legalized(shape, lambda x: relax.op.collapse_sum_to(x, out), lanes)
    assert ("plane_sums" in names) == has, names


@pytest.mark.parametrize(
    ("shape", "axes", "keeps", "lanes", "has"),
    [
        ((2, 64, 13, 13), [2, 3], True, 4, True),
        ((2, 64, 7, 7), [-1, -2], False, 4, True),
        ((2, 64, 7), [2], False, 4, True),
        ((2, 64, 7, 7), [2, 3], True, 16, False),
        ((2, 64, 8, 8), [2, 3], True, 4, False),
        ((2, 64, 7, 7), [1, 2], True, 4, False),
        ((2, 64, 7, 7), None, True, 4, False),
        ((2, 7), [1], True, 4, False),
    ],
)
def test_which_means_have_the_kernel(shape, axes, keeps: bool, lanes: int, has: bool) -> None:
    names = legalized(shape, lambda x: relax.op.mean(x, axes, keeps), lanes)
    assert ("plane_means" in names) == has, names


def legalized(shape, made: Callable[[relax.Var], relax.Expr], lanes: int) -> list[str]:
    """Names of the functions of a module in which an operator is legalised."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(made(x)))
    module = Legalize(plane_sum_rules(lanes), (), stay=False).run(builder.get())
    assert COLLAPSE not in str(module)
    assert MEAN not in str(module)
    return [variable.name_hint for variable, _ in module.functions_items()]
