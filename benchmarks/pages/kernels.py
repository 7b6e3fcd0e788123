"""Whether the sources of kernels have changed since a commit, asked of git."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages.result import RESULTS

ROOT = RESULTS.parents[1]
# What decides which kernels a step has, and how fast they are.
SOURCES = ("passes", "backends", "autoschedule")
# Of these, what a step of a CPU has nothing of.
OF_GPUS = tuple(
    f":(exclude){path}"
    for path in (
        *("backends/gpu", "backends/spirv", "backends/family/gpu.py", "autoschedule/gpu.py"),
        *("backends/cost/gpu_rates.py", "backends/cost/gpu_time.py"),
    )
)
# Figures of GPUs whose file has another name.
_ALSO_OF_GPUS = ("tuning",)


def sources_of(path: Path) -> Sequence[str]:
    """What decides the kernels that a file's figures are of, as git takes it."""
    is_of_gpus = "gpu" in path.stem or path.stem in _ALSO_OF_GPUS
    return SOURCES if is_of_gpus else (*SOURCES, *OF_GPUS)


def changed_since(commit: str, root: Path = ROOT, paths: Sequence[str] = SOURCES) -> bool | None:
    """Whether a file of `paths` differs from that commit; None where git does not know.

    Args:
        commit: a hash, perhaps with the mark of a tree that differs from it.
        root: of a clone, perhaps a shallow one.
        paths: what is compared, as git takes it.
    """
    commit = commit.removesuffix("-dirty")
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "diff", "--quiet", commit, "HEAD", "--", *paths],
            capture_output=True,
            check=False,
        ).returncode
    except OSError:
        return None
    return {0: False, 1: True}.get(found)


def note_changes(path: Path, root: Path = ROOT) -> bool:
    """Notes in a file of figures for which runs kernels have changed; whether that was news.

    What git does not know stays as it was.
    """
    said = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(said)
    for run in said["runs"]:
        changed = changed_since(run["commit"], root, sources_of(path))
        if changed is not None:
            run["kernels_changed"] = changed
    if json.dumps(said) == before:
        return False
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    return True
