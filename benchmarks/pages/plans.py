"""Which figures are of plans within a memory budget, of networks with attention."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.rows.budgets import NO_BUDGET

Rows = Sequence[Mapping[str, Any]]

# Networks with attention, as rows and commands name them.
_NAMES = ("bert", "gpt")
# What says that rows whose age is apart are within a budget.
_WITHIN = "within"


def plans_attention(run: Mapping[str, Any], rows: Rows, path: Path) -> bool:
    """Whether a run measured attention within a memory budget.

    A suite's run has no such figures if their age is apart.

    Args:
        run: what is said of it, or of rows whose age is apart.
        rows: those of its file that it measured; a suite's lie elsewhere.
        path: of the file.
    """
    if path.parent.name == "language_models":
        return any(" in " in row.get("base", "") for row in rows)
    if not rows:
        if "rows" in run:
            return _has_attention(run["rows"]) and _WITHIN in run["rows"]
        command = run.get("command", "")
        if any(plans_attention(apart, (), path) for apart in run.get("apart", ())):
            return False
        # All models of a suite, BERT among them, unless some are named.
        return "--budget" in command and ("--models" not in command or _has_attention(command))
    # Some rows of that folder are all within a budget, and name none.
    unsaid = "" if path.parent.name == "budgets" else NO_BUDGET
    return any(
        _has_attention(row.get("network", "")) and row.get("budget", unsaid) != NO_BUDGET
        for row in rows
    )


def _has_attention(text: str) -> bool:
    return any(name in text for name in _NAMES)
