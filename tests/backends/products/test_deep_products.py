"""Products of many terms or of many rows, of which caches hold a part at a time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from odtc.backends.caches import Caches
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.product import deep as deep_product
from odtc.backends.kernels.product import packed as packed_product
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.kernels.product.matmul import matmul
from odtc.backends.kernels.product.panel import panel_bytes, tiles_below
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.write_products import WriteProducts, write_product
from odtc.passes.graph.absorb_transpose import AbsorbTranspose
from tests.backends.products.guarded import run_guarded
from tests.backends.products.test_write_products import arrays_for, fused, run
from tests.fast import examples

# Of which a panel of some thirty terms is near a core.
SMALL = {
    "neon": replace(machine_of(128), cache_bytes=1 << 11),
    "avx2": replace(machine_of(256), cache_bytes=1 << 11),
    "avx-512": replace(machine_of(512), cache_bytes=1 << 12),
    "neon-half": replace(machine_of(128, has_half=True), cache_bytes=1 << 11),
    # Of which a panel of some twenty terms is in the first level, and some tiles in the second.
    "caches": machine_of(128, caches=Caches(1 << 11, 1 << 14)),
}


def product_of(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], machine: Machine
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the product by a kernel and in float64, and the product of the magnitudes."""
    rows, depth, columns = sizes
    shapes = [(rows, depth), (depth, columns)]
    stored = [s[::-1] if t else s for s, t in zip(shapes, transposed, strict=True)]
    left, right = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in zip("ab", stored, strict=True)
    )
    product = fused_product(matmul(left, right, *transposed))
    assert product
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in stored]
    (found,) = run_guarded(write_product(product, machine, CPU_LOOPS), arrays)
    a, b = ((x.T if t else x).astype(np.float64) for x, t in zip(arrays, transposed, strict=True))
    return found, a @ b, np.abs(a) @ np.abs(b)


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=examples(8), deadline=None)
@given(
    sizes=st.tuples(st.integers(16, 90), st.integers(100, 400), st.integers(16, 90)),
    transposed=st.tuples(st.booleans(), st.booleans()),
    most=st.sampled_from([1 << 10, 1 << 14, 1 << 23]),
    widest=st.sampled_from([40, 4096]),
)
# Blocks of one size, and with a shorter one after them; bands of a few tiles.
@example(sizes=(70, 256, 70), transposed=(True, False), most=1 << 14, widest=4096)
@example(sizes=(70, 257, 70), transposed=(True, False), most=1 << 14, widest=4096)
@example(sizes=(70, 257, 70), transposed=(False, True), most=1 << 10, widest=4096)
# Groups of panels, of which the last one has fewer.
@example(sizes=(20, 3201, 300), transposed=(True, False), most=1 << 23, widest=4096)
# Strips of columns, of which the last one has fewer panels.
@example(sizes=(70, 256, 300), transposed=(True, False), most=1 << 14, widest=128)
def test_many_terms(
    name: str, sizes: tuple[int, int, int], transposed: tuple[bool, bool], most: int, widest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deep_product, "_MOST", most)
        patch.setattr(deep_product, "_MOST_FIRST", most)
        patch.setattr(deep_product, "_WIDEST", widest)
        found, wanted, magnitudes = product_of(sizes, transposed, SMALL[name])
    unit = 2.0**-11 if SMALL[name].has_half else 2.0**-20
    assert (np.abs(found - wanted) <= 4 * unit * magnitudes).all()


def test_where_terms_are_many() -> None:
    """Not where panels are near a core, nor where they exceed that by little."""
    machine = machine_of(512)
    tile = machine.tile(768, 768)
    deep = [
        depth
        for depth in (512, 1024, 2048, 4096, 8192)
        if deep_product.is_deep(depth, tile, machine)
    ]
    assert deep == [8192]


def test_a_panel_of_a_block_has_a_part_of_what_is_near() -> None:
    """Where the first level is not known: all rows are multiplied by it before the next one."""
    machine = machine_of(512)
    tile = machine.tile(64, 1024)
    for depth in (8192, 151936):
        blocks = deep_product._blocks(depth, tile, machine, 32)
        assert sum(block.count * block.terms for block in blocks) == depth
        assert max(panel_bytes(block.terms, tile) for block in blocks) <= machine.near // 8


@pytest.mark.parametrize("transposed", [(True, False), (True, True)])
@pytest.mark.parametrize("most", [0, 1 << 13, 1 << 14])
def test_many_rows(transposed: tuple[bool, bool], most: int, monkeypatch) -> None:
    monkeypatch.setattr(packed_product, "_MOST_COPIED", most)
    for bits in (128, 256, 512):
        found, wanted, _ = product_of((101, 64, 70), transposed, machine_of(bits))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [(False, True), (True, False)])
@pytest.mark.parametrize("second", [14, 15, 17])
def test_tiles_below_each_other(transposed: tuple[bool, bool], second: int) -> None:
    """Of as many as fit the second level, the last ones fewer, a panel is multiplied by all."""
    machine = machine_of(128, caches=Caches(1 << 14, 1 << second))
    found, wanted, _ = product_of((101, 64, 70), transposed, machine)
    assert tiles_below(64, machine.tile(101, 70), machine) > 1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_a_panel_of_a_known_core_has() -> None:
    """Half of the first level; rows and columns that are read beside it have the other half."""
    machine = machine_of(128, caches=Caches(1 << 16, 1 << 19))
    tile = machine.tile(768, 768)
    most = (1 << 15) // (4 * tile.columns)
    assert not deep_product.is_deep(most, tile, machine)
    assert deep_product.is_deep(most + 1, tile, machine)
    assert tiles_below(most + 1, tile, machine) == 1


@pytest.mark.parametrize("name", ["neon", "avx-512"])
def test_what_is_fused_behind_many_terms(name: str) -> None:
    shapes = {"x": (67, 300), "w": (300, 81), "bias": (81,), "other": (67, 81)}
    x, w, bias, other = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, bias, other]):
        with builder.dataflow():
            y = builder.emit(op.add(builder.emit(op.matmul(x, w)), bias))
            result = builder.emit_output(op.multiply(y, builder.emit(op.nn.relu(other))))
        builder.emit_func_output(result)
    module = builder.finalize()
    arrays = arrays_for(module)
    a, b, c, d = arrays
    written = fused(AbsorbTranspose(matmul).run(module), SMALL[name])
    wanted = (a.astype(np.float64) @ b + c) * np.maximum(d, 0)
    np.testing.assert_allclose(run(written, arrays), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["neon", "avx2", "avx-512"])
def test_columns_of_several_images(name: str) -> None:
    """Vectors of which a part is of the next image."""
    x, w = (
        relax.Var(n, relax.TensorType(s, "float32"))
        for n, s in {"x": (3, 300, 5, 7), "w": (19, 300, 1, 1)}.items()
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            result = builder.emit_output(op.nn.conv2d(x, w))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps(convolution_rules())(builder.finalize())
    module = WriteProducts(SMALL[name], CPU_LOOPS).run(module)
    image, weight = arrays = arrays_for(module)
    wanted = np.einsum("ncyx,mc->nmyx", image.astype(np.float64), weight[:, :, 0, 0])
    np.testing.assert_allclose(run(module, arrays), wanted, rtol=1e-4, atol=1e-4)


def test_high_tiles_leave_room_for_a_panel() -> None:
    """With the rows of a tile it has three quarters of the first level."""
    machine = machine_of(128, caches=Caches(1 << 15, 1 << 17, loaded=8))
    tile = machine.tile(768, 768)
    assert tile.rows > tile.columns
    most = 3 * (1 << 13) // (4 * (tile.rows + tile.columns))
    assert not deep_product.is_deep(most, tile, machine)
    assert deep_product.is_deep(most + 1, tile, machine)
    found, wanted, _ = product_of((70, most + 8, 70), (False, False), machine)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
