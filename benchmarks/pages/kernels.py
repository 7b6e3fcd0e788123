"""Whether the sources of kernels have changed since a commit, asked of git."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.plans import Rows, plans_attention
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
# What decides how a step stays within a budget, and what is said of its memory: the kernels of a
# step without a budget have nothing of it.
OF_PLANS = tuple(
    f":(exclude){path}"
    for path in (
        *("passes/checkpoint", "passes/schedule/recomputation.py"),
        *("passes/memory/record.py", "passes/memory/turn.py"),
    )
)
# Figures of GPUs whose file has another name; none is of a step within a budget.
_ALSO_OF_GPUS = ("tuning",)
# Times of the compiler itself, and what else decides these.
_OF_COMPILER = ("compile_time", "plan_time")
_COMPILER = ("frontend", "odtc/driver")
# Figures of CPUs that steps are not compared for, by file or folder; none is within a budget.
_OF_OTHER_CPUS = ("cores", "arm")
# What `benchmarks.same_steps` notes of a commit: of all steps, and of plans of attention.
STEPS_HASH, PLANS_HASH = "hash", "attention_within_budgets"


def _sources_of(path: Path) -> Sequence[str]:
    """What decides the kernels that a file's figures are of, as git takes it."""
    if _is_of_gpus(path):
        return (*SOURCES, *OF_PLANS)
    if _is_any(path, _OF_OTHER_CPUS):
        return (*SOURCES, *OF_GPUS, *OF_PLANS)
    return (*SOURCES, *OF_GPUS, *(_COMPILER if _is_any(path, _OF_COMPILER) else ()))


def _is_of_gpus(path: Path) -> bool:
    return "gpu" in path.stem or path.stem in _ALSO_OF_GPUS


def _is_any(path: Path, names: Sequence[str]) -> bool:
    """Whether a file or its folder has one of these names."""
    return not {path.stem, path.parent.name}.isdisjoint(names)


def changes(said: Mapping[str, Any], path: Path, root: Path = ROOT) -> Sequence[bool | None]:
    """For each run of a file of figures, whether the kernels that it measured have changed since.

    Args:
        said: what the file says.
        path: of the file.
        root: of a clone, perhaps a shallow one.

    Returns:
        For each of `runs_of` whether the sources of its kernels differ, and are not known to
        compile the same steps; None where git does not know.
    """
    found = []
    for number, run in runs_of(said):
        rows = [row for row in said.get("rows", ()) if row.get("run", 0) == number]
        core = said["runs"][number].get("machine", {}).get("core", "")
        found.append(_changed(run, rows, core, path, root))
    return found


def runs_of(said: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The runs of a file with their numbers, each before those of its rows whose age is apart."""
    for number, run in enumerate(said["runs"]):
        yield number, run
        yield from ((number, apart) for apart in run.get("apart", ()))


def _changed(run: Mapping[str, Any], rows: Rows, core: str, path: Path, root: Path) -> bool | None:
    found = changed_since(run["commit"], root, _sources_of(path))
    is_compared = not _is_of_gpus(path) and not _is_any(path, (*_OF_COMPILER, *_OF_OTHER_CPUS))
    if not found or not is_compared:
        return found
    plans = (PLANS_HASH,) if plans_attention(run, rows, path) else ()
    commit = run["commit"].removesuffix(_CHANGED)
    return not _has_same_steps(commit, core, root, (STEPS_HASH, *plans))


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


def _has_same_steps(commit: str, core: str, root: Path, hashes: Sequence[str]) -> bool:
    """Whether a commit and these sources are known to compile the same steps for a kind of core."""
    ours, theirs = (_steps_of(each, core, root, hashes) for each in ("HEAD", commit))
    return bool(ours & theirs)


def _steps_of(commit: str, core: str, root: Path, hashes: Sequence[str]) -> set[tuple[str, ...]]:
    """Target and hashes of what is known of commits with the same sources of kernels.

    Where no core is known, those of any count.
    """
    file = root / STEPS.relative_to(ROOT)
    known = json.loads(file.read_text(encoding="utf-8"))["commits"] if file.is_file() else ()
    return {
        (each["target"], *(each[name] for name in hashes))
        for each in known
        if each.keys() >= {*hashes}
        and core in each["target"]
        and _differ(each["commit"], commit, root, (*SOURCES, *OF_GPUS)) is False
    }


def note_changes(path: Path, root: Path = ROOT) -> bool:
    """Notes in a file of figures for which runs kernels have changed; whether that was news.

    What git does not know stays as it was.
    """
    said = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(said)
    for (_, run), changed in zip(runs_of(said), changes(said, path, root), strict=True):
        if changed is not None:
            run["kernels_changed"] = changed
    if json.dumps(said) == before:
        return False
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    return True
