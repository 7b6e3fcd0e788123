"""The largest and smallest elements along an axis, against a sort that keeps the order of ties."""

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.axis.topk import topk_kernel
from tests.backends.products.guarded import behind_a_hole, run_guarded
from tests.fast import examples
from tests.host import loaded

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


def test_nothing_in_front_of_a_result_is_read() -> None:
    """A result may be the first tensor of an arena, which begins a page."""
    kernel = topk_kernel(1, 4, 1, 2, "float32", True).with_attr("global_symbol", "main")
    x = np.array([1, 3, 2, 0], np.float32).reshape(1, 4, 1)
    values = behind_a_hole((1, 2, 1), np.dtype(np.float32))
    places = behind_a_hole((1, 2, 1), np.dtype(np.int64))
    results = (tvm.runtime.from_dlpack(each) for each in (values, places))
    loaded(tvm.IRModule({"main": kernel}))["main"](tvm.runtime.tensor(x), *results)
    assert values.ravel().tolist() == [3, 2]
    assert places.ravel().tolist() == [1, 2]
