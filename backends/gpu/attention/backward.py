"""Attention backward on a GPU, in two launches that compute the scores again.

A block of queries runs over all keys for the adjoints of the queries, and a block of keys over all
queries for those of keys and values. No two groups add to one sum. The formulas are those of
`backends/kernels/attention/backward.py`.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.attention.group import Group, zero
from odtc.backends.gpu.attention.memory import registers
from odtc.backends.gpu.attention.scores import ScoreOf
from odtc.backends.gpu.attention.tile import AttentionTile, columns_of
from odtc.backends.gpu.multiply import ACROSS, Accumulators
from odtc.backends.kernels.attention.arguments import BackwardArguments, backward_arguments
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.common.places import unflatten
from odtc.backends.kernels.rows.passes import add, row_kernel


def attention_gradient_on_gpu(
    heads: Heads, dtypes: Sequence[str], tile: AttentionTile
) -> tirx.PrimFunc:
    """A kernel `(dy, q, k, v, out, top, share, [mask], dq, dk, dv)`, as that of CPUs.

    Args:
        heads: sizes and layout.
        dtypes: as stored, of `q`, `k`, `v` and `out`.
        tile: how it is cut.
    """
    with row_kernel("attention_gradient") as made:
        of = backward_arguments(heads, dtypes)
        # Of each query, the sum of its result times the adjoint of that.
        level = T.sblock_alloc_buffer((heads.batch, heads.heads, heads.queries), "float32")
        _of_queries(heads, tile, of, level)
        _of_keys(heads, tile, of, level)
    return made()


def _of_queries(
    heads: Heads, tile: AttentionTile, of: BackwardArguments, levels: tirx.Buffer
) -> None:
    """Emits the launch of the adjoints of the queries, and of the levels."""
    blocks = -(-heads.queries // tile.height)
    is_cut = heads.queries % tile.height > 0, heads.keys % tile.width > 0
    with (
        T.thread_binding(heads.batch * heads.heads * blocks, "blockIdx.x") as number,
        T.thread_binding(tile.items, "threadIdx.x") as item,
        T.sblock("queries"),
    ):
        b, h, block = unflatten(number, (heads.batch, heads.heads, blocks))
        group = Group(heads, tile, (b, h, block), item)
        level = _level(group, of, levels)
        top, share = (registers(tile.rows) for _ in range(2))
        with T.unroll(tile.rows) as i:
            for to, source in ((top, of.top), (share, of.share)):
                query = group.start + group.row + i
                T.buffer_store(to, group.number(source, query, is_cut=is_cut[0]), [i])
        sums = group.sums(columns_of(heads.width))
        with T.serial(-(-heads.keys // tile.width)) as part:
            first = part * tile.width
            products = group.product(of.q, of.k, first)

            def score(i: ir.Expr, j: int) -> ScoreOf:
                query, key = group.start + group.row + i, first + products.column(j, group.x)
                return ScoreOf(heads, of.mask, b, h, query, key, is_cut)

            _chances(group, products, score, lambda i, _: (top[i], share[i]))
            adjoints = group.product(of.dy, of.v, first)
            _slopes(group, adjoints, score, lambda i, _: level[i])
            group.add(sums, of.k, first)
        group.store(sums, of.dq, heads.queries)


def _of_keys(heads: Heads, tile: AttentionTile, of: BackwardArguments, levels: tirx.Buffer) -> None:
    """Emits the launch of the adjoints of keys and values."""
    blocks = -(-heads.keys // tile.height)
    is_cut = heads.queries % tile.width > 0, heads.keys % tile.height > 0
    with (
        T.thread_binding(heads.batch * heads.heads * blocks, "blockIdx.x") as number,
        T.thread_binding(tile.items, "threadIdx.x") as item,
        T.sblock("keys"),
    ):
        b, h, block = unflatten(number, (heads.batch, heads.heads, blocks))
        group = Group(heads, tile, (b, h, block), item)
        of_keys, of_values = (group.sums(columns_of(size)) for size in (heads.width, heads.depth))
        with T.serial(-(-heads.queries // tile.width)) as part:
            first = part * tile.width
            products = group.product(of.k, of.q, first)
            top, share, level = (registers(tile.columns) for _ in range(3))
            for j in range(tile.columns):
                for to, source in ((top, of.top), (share, of.share), (level, levels)):
                    query = first + products.column(j, group.x)
                    T.buffer_store(to, group.number(source, query, is_cut=is_cut[0]), [j])

            def score(i: ir.Expr, j: int) -> ScoreOf:
                key, query = group.start + group.row + i, first + products.column(j, group.x)
                return ScoreOf(heads, of.mask, b, h, query, key, is_cut)

            _chances(group, products, score, lambda _, j: (top[j], share[j]))
            group.add(of_values, of.dy, first)
            adjoints = group.product(of.v, of.dy, first)
            _slopes(group, adjoints, score, lambda _, j: level[j])
            group.add(of_keys, of.q, first)
        group.store(of_keys, of.dk, heads.keys)
        group.store(of_values, of.dv, heads.keys)


def _chances(
    group: Group,
    products: Accumulators,
    score: Callable[[ir.Expr, int], ScoreOf],
    numbers: Callable[[ir.Expr, int], tuple[ir.Expr, ir.Expr]],
) -> None:
    """Has the group share the probabilities of its keys.

    Args:
        group: it.
        products: of queries and keys.
        score: from a row and a column of an item to the place.
        numbers: the same, to the largest score and the share of its query.
    """
    results = products.results
    with T.unroll(group.tile.rows) as i:
        for j in range(group.tile.columns):
            value = _chance(score(i, j), results[i, j], *numbers(i, j))
            T.buffer_store(results, value, [i, j])
    group.keep(products)


def _chance(score: ScoreOf, product: ir.Expr, top: ir.Expr, share: ir.Expr) -> ir.Expr:
    """The probability of a key."""
    share = T.Bind(share)
    # Computed of all, so that items need not part.
    value = T.Bind(tirx.exp(score.of(product, score.bias()) - top) * share)
    if score.heads.safe:
        value = tirx.Select(share > 0.0, value, zero())
    return score.where_there(value, zero())


def _slopes(
    group: Group,
    adjoints: Accumulators,
    score: Callable[[ir.Expr, int], ScoreOf],
    level: Callable[[ir.Expr, int], ir.Expr],
) -> None:
    """Has the group share the adjoints of its products in place of its probabilities.

    Args:
        group: it.
        adjoints: of the probabilities.
        score: from a row and a column of an item to the place.
        level: the same, to the number of its query.
    """
    tile, results = group.tile, adjoints.results
    chances = registers(tile.rows, tile.columns)
    group.memory.kept(lambda j: adjoints.column(j, group.x), chances)
    with T.unroll(tile.rows) as i:
        for j in range(tile.columns):
            place = score(i, j)
            bias = place.bias() if group.heads.replaces else None
            value = chances[i, j] * (results[i, j] - level(i, j))
            T.buffer_store(results, place.slope(value, bias), [i, j])
    group.keep(adjoints)


def _level(group: Group, of: BackwardArguments, to: tirx.Buffer) -> tirx.Buffer:
    """Emits the sums of the results times their adjoints, of the item's rows."""
    heads = group.heads
    found = registers(group.tile.rows)
    dy, out = (each.of(group.b, group.h) for each in (of.dy, of.out))
    with T.unroll(group.tile.rows) as i:
        T.buffer_store(found, zero(), [i])
        query = group.start + group.row + i
        with T.If(query < heads.queries), T.Then():
            for part in range(columns_of(heads.depth)):
                e = part * ACROSS + group.x
                value = dy.read(query, e) * out.read(query, e)
                if (part + 1) * ACROSS > heads.depth:
                    value = tirx.if_then_else(e < heads.depth, value, zero())
                T.buffer_store(found, found[i] + value, [i])
    group.memory.combined(found, add)
    with T.unroll(group.tile.rows) as i:
        query = group.start + group.row + i
        with T.If(tirx.all(query < heads.queries, tirx.EQ(group.x, 0))), T.Then():
            T.buffer_store(to, found[i], [group.b, group.h, query])
    return found
