"""The skyline of a step in memory: a rectangle for each tensor, by calls and bytes of the arena."""

from html import escape

from odtc.artifact import Artifact
from odtc.charts.figure import figure
from odtc.cli.pictures.skyline import chart_of
from odtc.report.html import section

_MB = 1e6


def skyline(anchor: str, name: str, artifact: Artifact) -> str:
    """Draws the memory of an artifact's step, call by call."""
    memory, plan = artifact.memory, artifact.memory.plan
    beside = (memory.parameter_bytes + memory.optimizer_bytes) / _MB
    parts = f", of one of {memory.micro_batches} micro-batches" if memory.micro_batches > 1 else ""
    body = (
        f"<p>An arena of {plan.arena_bytes / _MB:,.1f} MB{parts}, whose lower bound is "
        f"{plan.lower_bound_bytes / _MB:,.1f}; beside it {beside:,.1f} MB of parameters and state. "
        f"Batch {artifact.manifest.batch}, {escape(artifact.manifest.target)}.</p>"
    )
    body += figure(chart_of(plan, "Tensors in the arena"))
    return section(anchor, f"Memory of {name}", body)
