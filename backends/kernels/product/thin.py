"""Products of few rows and a large dense matrix, which is read once, in the order in which it lies.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)`: what bounds it is reading `b`. The sums of a
task lie in its first cache, and some rows of `b` are added to them at a time, as wide as the task
is: a page of memory is read from its begin to its end, not visited once for each tile.
"""

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import unflatten
from odtc.backends.kernels.product.half_runs import add_into
from odtc.backends.kernels.product.panel import ProductSizes
from odtc.backends.kernels.product.panels import Panels, Read, Results
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator

# Rows that such a product has at most, columns of a task, and terms that are added at a time.
THIN, _WIDE, _RUN = 8, 1024, 4


def is_thin(sizes: ProductSizes, right: Panels, machine: Machine) -> bool:
    """Whether a product is bound by reading its right operand, and that is dense."""
    is_large = 4 * sizes.depth * sizes.columns > machine.cache_bytes
    return sizes.rows <= THIN and right.is_dense and is_large and sizes.columns >= _WIDE


def thin_product(
    sizes: ProductSizes, left: Read, right: Panels, results: Results, machine: Machine
) -> None:
    """Emits a product.

    Args:
        sizes: of the product; see `is_thin`.
        left: `(n, m, k)` to an element.
        right: the other operand.
        results: of the product.
        machine: the CPU.
    """
    rows, lanes = sizes.rows, machine.lanes
    tile = Tile(rows, 1, lanes)
    tasks, whole = -(-sizes.columns // _WIDE), sizes.depth // _RUN * _RUN
    with T.parallel(sizes.batch * tasks) as task:
        n, part = unflatten(task, (sizes.batch, tasks))
        # The last task reaches back over results that are there already.
        at = T.Bind(tirx.min(part * _WIDE, sizes.columns - _WIDE))
        sums = T.sblock_alloc_buffer((rows, _WIDE), "float32")
        registers = accumulator(tile)
        with T.grid(rows, _WIDE // lanes) as (m, vector), T.vectorized(lanes) as lane:
            T.buffer_store(sums, tirx.const(0.0, "float32"), [m, vector * lanes + lane])
        for first, count, run in ((0, whole // _RUN, _RUN), (whole, sizes.depth - whole, 1)):
            with T.grid(count, _WIDE // lanes) as (step, vector):
                begin = first + step * run
                add_into(
                    sums,
                    registers,
                    tile,
                    lambda m, _, vector=vector: [m, tile.span(0, vector * lanes)],
                    [run],
                    lambda m, k, begin=begin: left(n, m, begin + k),
                    lambda _, k, begin=begin, vector=vector: right.read(
                        n, begin + k, tile.span(0, at + vector * lanes)
                    ),
                )
        with T.grid(rows, _WIDE // lanes) as (m, vector), T.vectorized(lanes) as lane:
            column = vector * lanes + lane
            results.store(n, m, at + column, tirx.BufferLoad(sums, [m, column]))
