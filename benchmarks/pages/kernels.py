"""Whether the sources of kernels have changed since a commit, asked of git."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages.result import RESULTS

ROOT = RESULTS.parents[1]
# Behind the hash of a commit that the tree differs from.
_CHANGED = "-dirty"
# Which commits compile the same steps for a CPU: `benchmarks.same_steps`.
STEPS = RESULTS / "steps.json"
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
# Times of the compiler itself, and what else decides these.
_OF_COMPILER = ("compile_time", "plan_time")
_COMPILER = ("frontend", "odtc/driver")
# Figures of CPUs that steps are not compared for, by file or folder.
_OF_OTHER_CPUS = ("cores", "arm")


def _sources_of(path: Path) -> Sequence[str]:
    """What decides the kernels that a file's figures are of, as git takes it."""
    if _is_of_gpus(path):
        return SOURCES
    return (*SOURCES, *OF_GPUS, *(_COMPILER if path.stem in _OF_COMPILER else ()))


def _is_of_gpus(path: Path) -> bool:
    return "gpu" in path.stem or path.stem in _ALSO_OF_GPUS


def kernels_changed(commit: str, path: Path, root: Path = ROOT) -> bool | None:
    """Whether the kernels of a file's figures have changed since that commit.

    Args:
        commit: a hash, perhaps with the mark of a tree that differs from it.
        path: of the file of figures.
        root: of a clone, perhaps a shallow one.

    Returns:
        Whether their sources differ, and are not known to compile the same steps; None where git
        does not know.
    """
    found = changed_since(commit, root, _sources_of(path))
    own = {path.stem, path.parent.name}
    is_compared = not _is_of_gpus(path) and own.isdisjoint((*_OF_COMPILER, *_OF_OTHER_CPUS))
    return found and not (is_compared and _has_same_steps(commit.removesuffix(_CHANGED), root))


def changed_since(commit: str, root: Path = ROOT, paths: Sequence[str] = SOURCES) -> bool | None:
    """Whether a file of `paths` differs from that commit; None where git does not know.

    Args:
        commit: a hash, perhaps with the mark of a tree that differs from it.
        root: of a clone, perhaps a shallow one.
        paths: what is compared, as git takes it.
    """
    return _differ(commit.removesuffix(_CHANGED), "HEAD", root, paths)


def _differ(first: str, second: str, root: Path, paths: Sequence[str]) -> bool | None:
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "diff", "--quiet", first, second, "--", *paths],
            capture_output=True,
            check=False,
        ).returncode
    except OSError:
        return None
    return {0: False, 1: True}.get(found)


def _has_same_steps(commit: str, root: Path) -> bool:
    """Whether a commit and these sources are known to compile the same steps for a CPU."""
    ours, theirs = (_steps_of(each, root) for each in ("HEAD", commit))
    return bool(ours & theirs)


def _steps_of(commit: str, root: Path) -> set[tuple[str, str]]:
    """Target and hash of what is known of commits with the same sources of kernels."""
    file = root / STEPS.relative_to(ROOT)
    known = json.loads(file.read_text(encoding="utf-8"))["commits"] if file.is_file() else ()
    return {
        (each["target"], each["hash"])
        for each in known
        if _differ(each["commit"], commit, root, (*SOURCES, *OF_GPUS)) is False
    }


def note_changes(path: Path, root: Path = ROOT) -> bool:
    """Notes in a file of figures for which runs kernels have changed; whether that was news.

    What git does not know stays as it was.
    """
    said = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(said)
    for run in said["runs"]:
        changed = kernels_changed(run["commit"], path, root)
        if changed is not None:
            run["kernels_changed"] = changed
    if json.dumps(said) == before:
        return False
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    return True
