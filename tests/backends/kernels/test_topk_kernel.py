"""The largest and smallest elements along an axis, against a sort that keeps the order of ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.axis.topk import topk_kernel
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

SIZE = st.integers(1, 9)


@pytest.mark.parametrize("largest", [True, False])
@settings(max_examples=examples(10), deadline=None)
@given(shape=st.tuples(SIZE, SIZE, SIZE), data=st.data())
def test_of_equal_elements_the_first_come_first(
    largest: bool, shape: tuple[int, int, int], data
) -> None:
    outer, size, inner = shape
    count = data.draw(st.integers(1, size))
    x = np.random.default_rng(0).integers(0, 4, shape).astype(np.float32)
    kernel = topk_kernel(outer, size, inner, count, "float32", largest)
    values, places = run_guarded(kernel, [x], results=2)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=1))
