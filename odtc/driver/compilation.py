"""`compile_step`: from an ONNX file to an artifact, unless the same was compiled before.

    options ─→ key ─┬─ kept ─────────────────────────────→ artifact
                    └─ build (`odtc/driver/building.py`) ─ keep ─→

TVM is imported where there is something to build.
"""

import sys
from dataclasses import replace
from pathlib import Path

from odtc.artifact import Artifact
from odtc.backends.targets import Target
from odtc.core.errors import UsageError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.process.progress import Progress
from odtc.driver.drafts.normalizing import as_normalize
from odtc.driver.options.step_options import StepOptions
from odtc.step_cache.key import named_files, step_key
from odtc.step_cache.store import KeptStep, beside, find, keep, step_store
from odtc.step_cache.unchanged import look_at


def compile_step(
    model: Path,
    target: Target,
    options: StepOptions,
    budget: int | str | None,
    progress: Progress,
) -> Artifact:
    """Compiles an ONNX inference model into a training step; see `odtc.compile`.

    Args:
        model: path of the ONNX file.
        target: what to compile for.
        options: of the step.
        budget: bytes that its tensors may take, `auto` for several plans, or None.
        progress: called with the name of each stage as it starts.

    Raises:
        OdtcError: the model, an option or the machine does not allow it.
    """
    if options.offload and budget is None:
        raise UsageError(
            "tensors wait in storage only to keep within a budget, and no budget is given",
            where="offload",
            hint="give a memory budget, such as 64MiB or auto",
        )
    # Read once: data may be large, and the key of the step is to have its numbers.
    options = replace(options, normalize=as_normalize(options.normalize, progress))
    kept = _kept_or_built(model, target, options, budget, progress)
    for note in kept.warnings:
        warn_caller(f"compile: {note}")
    return Artifact(kept.bundle)


def _kept_or_built(
    model: Path,
    target: Target,
    options: StepOptions,
    budget: int | str | None,
    progress: Progress,
) -> KeptStep:
    seen = look_at([model, *named_files(options)])
    is_kept = step_store().is_used and not _is_watched()
    key = step_key(model, target, options, budget) if is_kept else None
    found = find(key, model) if key else None
    if found:
        return found
    # TVM takes a while to load.
    progress("load the compiler")
    from odtc.driver.building import build

    if key:
        seen = seen.and_at(beside(model))
    built = build(model, target, options, budget, progress)
    if key:
        progress("keep the step")
        keep(key, model, built, seen)
    return built


def _is_watched() -> bool:
    """Whether instruments of TVM wait for passes, which have to run then."""
    # Who gives it instruments has imported it.
    if "tvm" not in sys.modules:
        return False
    from odtc.passes.pipeline.printing import is_watched

    return is_watched()
