"""Pooling the largest elements of regions, which ONNX's reference implementation lacks."""

import numpy as np

from tests.numeric.side_by_side import check, gradients, side_by_side

# Image, left, top, right, bottom: one inside, one partly outside, one of a single element, one of
# none.
REGIONS = np.array([[0, 0, 0, 3, 4], [1, 2, 1, 9, 6], [1, 2, 2, 2, 2], [0, 20, 20, 22, 24]])


def pool(regions: np.ndarray, shape: tuple[int, ...]):
    nodes = {
        scale: "$r = Cast <to = 1> (i) $y = MaxRoiPool "
        f"<pooled_shape = [2, 3], spatial_scale = {value}> ($h, $r)"
        for scale, value in (("whole", 1.0), ("half", 0.5))
    }
    return side_by_side(nodes, shape, constants={"i": regions}, scale=0.1)


def test_max_roi_pool(saved) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 6, 5)).astype(np.float32)
    check(pool(REGIONS, x.shape), x, saved)


def test_a_region_outside_of_the_image_passes_nothing(saved) -> None:
    x = np.random.default_rng(3).standard_normal((1, 2, 4, 4)).astype(np.float32)
    found = gradients(pool(REGIONS[3:], x.shape), x, saved)
    assert not any(value.any() for value in found.values())
