"""The arguments of attention's kernels, which those of CPUs and of GPUs have alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.layout import Heads, HeadTensor


@dataclass(frozen=True)
class ForwardArguments:
    """Those of attention, by their names and in their order; there may be no mask."""

    q: HeadTensor
    k: HeadTensor
    v: HeadTensor
    mask: tirx.Buffer | None
    out: HeadTensor
    top: tirx.Buffer
    share: tirx.Buffer


@dataclass(frozen=True)
class BackwardArguments:
    """Those of its gradient, by their names and in their order; there may be no mask."""

    dy: HeadTensor
    q: HeadTensor
    k: HeadTensor
    v: HeadTensor
    out: HeadTensor
    top: tirx.Buffer
    share: tirx.Buffer
    mask: tirx.Buffer | None
    dq: HeadTensor
    dk: HeadTensor
    dv: HeadTensor


def forward_arguments(heads: Heads) -> ForwardArguments:
    """Declares the arguments of a kernel that is being built; all are float32 but as heads say."""
    of_q, of_k, of_v, of_out = heads.inner
    return ForwardArguments(
        heads.argument("q", heads.queries, heads.width, of_q),
        heads.argument("k", heads.keys, heads.width, of_k),
        heads.argument("v", heads.keys, heads.depth, of_v),
        _mask(heads),
        heads.argument("out", heads.queries, heads.depth, of_out),
        heads.of_queries("top"),
        heads.of_queries("share"),
    )


def backward_arguments(heads: Heads, dtypes: Sequence[str]) -> BackwardArguments:
    """Declares the arguments of a kernel that is being built; adjoints are float32.

    Args:
        heads: sizes and layout of the attention.
        dtypes: as stored, of `q`, `k`, `v` and `out`.
    """
    of_q, of_k, of_v, of_out = heads.inner
    sizes = {
        "q": (heads.queries, heads.width, of_q),
        "k": (heads.keys, heads.width, of_k),
        "v": (heads.keys, heads.depth, of_v),
        "out": (heads.queries, heads.depth, of_out),
    }
    dy = heads.argument("dy", *sizes["out"])
    q, k, v, out = (
        heads.argument(name, *size, dtype)
        for (name, size), dtype in zip(sizes.items(), dtypes, strict=True)
    )
    top, share = heads.of_queries("top"), heads.of_queries("share")
    mask = _mask(heads)
    dq, dk, dv = (heads.argument(f"d{name}", *sizes[name]) for name in "qkv")
    return BackwardArguments(dy, q, k, v, out, top, share, mask, dq, dk, dv)


def _mask(heads: Heads) -> tirx.Buffer | None:
    return T.arg("mask", T.buffer(heads.mask)) if heads.mask else None
