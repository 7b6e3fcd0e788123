"""The skyline of a step in memory: a rectangle for each tensor, by calls and bytes of the arena."""

from html import escape

from odtc.artifact import Artifact
from odtc.core.artifact.memory_plan import Kind, MemoryPlan
from odtc.report.charts import plane
from odtc.report.html import key, section
from odtc.report.scales import Linear

_MB = 1e6
# The class of a kind's colour.
_CLASSES = {
    Kind.SAVED: "k0",
    Kind.ACTIVATION: "k1",
    Kind.GRADIENT: "k2",
    Kind.PARAMETER_GRADIENT: "k3",
    Kind.WORKSPACE: "k4",
    Kind.OTHER: "k5",
}


def skyline(name: str, artifact: Artifact) -> str:
    """Draws the memory of an artifact's step, call by call."""
    memory, plan = artifact.memory, artifact.memory.plan
    beside = (memory.parameter_bytes + memory.optimizer_bytes) / _MB
    parts = f", of one of {memory.micro_batches} micro-batches" if memory.micro_batches > 1 else ""
    body = (
        f"<p>An arena of {plan.arena_bytes / _MB:,.1f} MB{parts}, whose lower bound is "
        f"{plan.lower_bound_bytes / _MB:,.1f}; beside it {beside:,.1f} MB of parameters and state. "
        f"Batch {artifact.manifest.batch}, {escape(artifact.manifest.target)}.</p>"
    )
    kinds = [kind for kind in _CLASSES if plan.of_kind(kind)]
    marks = "".join(f"<span>{key(_CLASSES[kind])}{escape(kind.value)}</span>" for kind in kinds)
    body += _picture(plan) + f'<div class="legend">{marks}</div>'
    return section(f"skyline-{escape(name)}", f"Memory of {name}", body)


def _picture(plan: MemoryPlan) -> str:
    calls, top = max(1, len(plan.calls)), max(1, plan.arena_bytes) * 1.04
    rectangles = "".join(
        f'<rect class="{_CLASSES[each.kind]}" x="{each.first}" '
        f'y="{100 - 100 * (each.offset + each.nbytes) / top:.3f}" '
        f'width="{each.last + 1 - each.first}" height="{100 * each.nbytes / top:.3f}">'
        f"<title>{escape(each.tensor)}: {each.kind}, {each.nbytes / _MB:,.3f} MB</title></rect>"
        for each in plan.tensors
    )
    inner = (
        f'<svg class="sky" viewBox="0 0 {calls} 100" preserveAspectRatio="none" width="100%" '
        f'height="100%">{rectangles}</svg>'
    )
    at = 100 * plan.backward / calls
    turn = f'<line class="one" x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="100%"/>'
    scales = (Linear(calls), Linear(top / _MB))
    units = ("call of the step; behind the line the backward pass", "MB of the arena")
    return plane("Tensors in the arena", units, scales, inner + turn)
