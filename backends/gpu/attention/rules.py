"""Attention on a GPU as kernels, where it has registers and shared memory for a tile of scores."""

from collections.abc import Callable

from tvm import relax

from odtc.backends.gpu.attention.backward import attention_gradient_on_gpu
from odtc.backends.gpu.attention.forward import attention_on_gpu
from odtc.backends.gpu.attention.tile import AttentionTile
from odtc.backends.gpu.machine import Gpu
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.attention.rules import Rule, heads_of, rules_of_kernels


def gpu_attention_rules(gpu: Gpu) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""

    def tile(heads: Heads) -> AttentionTile:
        found = tile_of(heads, gpu)
        assert found, heads
        return found

    return rules_of_kernels(
        lambda heads: attention_on_gpu(heads, tile(heads)),
        lambda heads, dtypes: attention_gradient_on_gpu(heads, dtypes, tile(heads)),
    )


def has_kernel(gpu: Gpu) -> Callable[[relax.Call], bool]:
    """Whether a GPU has kernels for an attention, or for its gradient; others are spelled out.

    Kernels multiply float32, in mixed precision too: as products and a softmax of their own,
    scores would go to memory and back.
    """
    return lambda call: tile_of(heads_of(call), gpu) is not None


def tile_of(heads: Heads, gpu: Gpu) -> AttentionTile | None:
    """The fastest tile that a GPU has registers and shared memory for, if there is any."""
    tiles = {
        AttentionTile(each.rows, each.columns, each.down, each.terms): each.speed
        for each in gpu.attention
    }
    fitting = [
        tile
        for tile in tiles
        if tile.items <= min(gpu.group, gpu.most_items)
        and tile.local_bytes(heads) <= gpu.local_bytes
        and tile.sums(heads) <= gpu.attention_sums
    ]
    return min(fitting, key=lambda tile: tile.scores(heads) / tiles[tile], default=None)
