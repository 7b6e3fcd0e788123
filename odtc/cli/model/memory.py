"""Output of `odtc inspect --memory`: a training step's memory plan."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from odtc.cli.console import aligned, readable_bytes
from odtc.core.artifact.memory_plan import Kind, MemoryPlan, PlannedTensor

if TYPE_CHECKING:
    from odtc.artifact import Memory

# Tensors of a list that are shown; the rest are summed up. Longer cells are cut in the middle.
_SHOWN, _WIDEST = 20, 56


def describe(memory: "Memory") -> dict[str, Any]:
    """The plan as data, for `--json`."""
    plan = memory.plan
    return {
        "arena_bytes": memory.arena_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "parameter_bytes": memory.parameter_bytes,
        "optimizer_bytes": memory.optimizer_bytes,
        "accumulator_bytes": memory.accumulator_bytes,
        "micro_batches": memory.micro_batches,
        "stored_bytes": memory.stored_bytes,
        "peak_bytes": memory.peak_bytes,
        "proven_optimal": memory.proven_optimal,
        "result_bytes": plan.result_bytes,
        "peak_call": plan.peak_call,
        "backward": plan.backward,
        "calls": [
            {"kernel": kernel, "live_bytes": count}
            for kernel, count in zip(plan.calls, plan.live_bytes, strict=True)
        ],
        "tensors": [_tensor(tensor) for tensor in plan.tensors],
    }


def _tensor(tensor: PlannedTensor) -> dict[str, Any]:
    return {
        "name": tensor.spec.name,
        "shape": list(tensor.spec.shape),
        "dtype": tensor.spec.dtype,
        "kind": tensor.kind,
        "bytes": tensor.nbytes,
        "offset": tensor.offset,
        "first": tensor.first,
        "last": tensor.last,
        "origins": [dataclasses.asdict(origin) for origin in tensor.origins],
    }


def report(memory: "Memory") -> list[str]:
    """The plan as lines."""
    plan = memory.plan
    return [
        *aligned(_rows(memory)),
        "",
        f"alive at the peak, in call {plan.peak_call:,} of {len(plan.calls):,}"
        + (f" ({plan.calls[plan.peak_call]})" if plan.calls else ""),
        *_table(plan.live_at(plan.peak_call), "kind"),
        "",
        "saved for the backward pass",
        *_table(plan.of_kind(Kind.SAVED)),
    ]


def _rows(memory: "Memory") -> list[tuple[str, str]]:
    plan = memory.plan
    gap = plan.arena_bytes - plan.lower_bound_bytes
    share = gap / max(1, plan.lower_bound_bytes)
    proven = "; no plan of these lifespans is smaller" if plan.proven_optimal else ""
    return [
        ("arena", _exact(plan.arena_bytes)),
        ("lower bound", _exact(plan.lower_bound_bytes)),
        ("gap", f"{gap:,} bytes, {share:.2%}{proven}"),
        ("peak", f"{_exact(plan.peak_bytes)} alive in call {plan.peak_call:,}"),
        ("parameters", _exact(memory.parameter_bytes)),
        ("optimizer state", _exact(memory.optimizer_bytes)),
        *_micro_batches(memory),
        *[("waits in a file", _exact(size)) for size in (memory.stored_bytes,) if size],
        *_kinds(plan),
    ]


def _micro_batches(memory: "Memory") -> list[tuple[str, str]]:
    """Rows on micro-batches, and on the bytes that the budget holds beside the arena for them."""
    if memory.micro_batches == 1:
        return []
    count = _exact(memory.accumulator_bytes)
    return [
        ("micro-batches", f"{memory.micro_batches}; the plan is that of one of them"),
        ("of the state for them", count),
    ]


def _kinds(plan: MemoryPlan) -> Iterable[tuple[str, str]]:
    """Bytes at the peak, by kind."""
    alive = plan.live_at(plan.peak_call)
    for kind in Kind:
        count = sum(tensor.nbytes for tensor in alive if tensor.kind is kind)
        if count:
            yield f"{kind} at the peak", _exact(count)


# Columns of a list of tensors.
_COLUMNS: dict[str, Callable[[PlannedTensor], str]] = {
    "bytes": lambda tensor: f"{tensor.nbytes:,}",
    "kind": lambda tensor: str(tensor.kind),
    "tensor": lambda tensor: _short(tensor.tensor),
    "origin": lambda tensor: _short(tensor.origin),
}


def _table(tensors: Sequence[PlannedTensor], *more: str) -> list[str]:
    """The largest tensors as lines, and the sum of the others.

    Args:
        tensors: the largest first.
        more: columns beside the bytes, the tensor and its origin.
    """
    if not tensors:
        return ["  none"]
    shown, rest = tensors[:_SHOWN], tensors[_SHOWN:]
    columns = {name: _COLUMNS[name] for name in ("bytes", *more, "tensor", "origin")}
    rows = [[*columns], *([cell(tensor) for cell in columns.values()] for tensor in shown)]
    width = max(len(row[0]) for row in rows)
    lines = aligned((row[0].rjust(width), *row[1:]) for row in rows)
    total = sum(tensor.nbytes for tensor in rest)
    others = [f"and {len(rest):,} smaller ones, {_exact(total)} in all"] if rest else []
    return [f"  {line}" for line in (*lines, *others)]


def _short(text: str) -> str:
    """A text that fits into a column; both of its ends say something."""
    half = (_WIDEST - 1) // 2
    return text if len(text) <= _WIDEST else f"{text[:half]}…{text[-half:]}"


def _exact(count: int) -> str:
    return f"{readable_bytes(count)} ({count:,} bytes)"
