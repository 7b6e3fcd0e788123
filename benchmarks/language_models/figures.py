"""The figures of the comparison for docs/performance.md."""

from collections.abc import Sequence
from typing import Any

from benchmarks.language_models.compare import PEERS, Row
from benchmarks.language_models.sides import CHECKPOINTED, TORCH

NAME = "language_models/steps"
_KEYS = {TORCH: "pytorch", CHECKPOINTED: "checkpointed"}


def figures_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Samples and bytes of each base with a model at a length, and of its peers.

    Who took no steps says why under `skipped`; beside a base without there are no peers.
    """
    by_case = {(row.model, row.tokens, row.side): row for row in rows}
    found = []
    for row in rows:
        if row.side not in PEERS:
            found.append(_of_base(row))
            if row.turns:
                peers = (by_case[row.model, row.tokens, name] for name in PEERS)
                found[-1] |= {_KEYS[peer.side]: _of_peer(peer, row) for peer in peers}
    return found


def _of_base(row: Row) -> dict[str, Any]:
    said = {"model": row.model, "tokens": row.tokens, "base": row.side}
    if not row.turns:
        return said | {"skipped": row.skipped}
    sizes = {"in_all": row.peak, "files": row.files}
    if row.compiled:
        sizes |= {"compile_s": row.compiled["seconds"], "compile_peak": row.compiled["peak"]}
    return said | _samples(row) | sizes


def _of_peer(peer: Row, ours: Row) -> dict[str, Any]:
    if not peer.turns:
        return {"skipped": peer.skipped}
    ratio = [b / a for a, b in zip(ours.seconds, peer.seconds, strict=True)]
    return _samples(peer) | {"ratio": ratio}


def _samples(row: Row) -> dict[str, Any]:
    return {"ms": [each * 1e3 for each in row.seconds], "net": row.net}
