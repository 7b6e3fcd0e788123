"""Writes the program of an artifact: its functions as calls, and facts about it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from odtc.backends.cpus import told_features
from odtc.backends.objects.kernel_objects import set_suffix
from odtc.backends.program.lines import Line
from odtc.backends.program.program import program_of
from odtc.backends.program.write import program_bytes
from odtc.backends.targets import CPU, Target
from odtc.core.artifact import bundle as bundles
from odtc.core.artifact.manifest import Manifest
from odtc.runtime_rpc.state.same_run import step_identity


def write_program(
    manifest: Manifest,
    lines: Mapping[str, Line],
    identity: str,
    target: Target,
    root: Path,
    shorter: Sequence[Mapping[str, Line]] = (),
) -> Path | None:
    """The step as data; None where it does something else than calling kernels."""
    if not lines:
        return None
    path = root / bundles.PROGRAM
    facts = {
        **_cores(target),
        **({} if target.kind == CPU else {"gpu": target.kind}),
        "weights_sha256": bundles.file_sha256(root / bundles.PARAMETERS),
        # What a checkpoint says of the run that it is of.
        "run": json.dumps(step_identity(manifest), sort_keys=True),
    }
    program = program_of(manifest, lines, identity, target.threads or 1, facts, shorter)
    path.write_bytes(program_bytes(program))
    return path


def _cores(target: Target) -> dict[str, str]:
    """What each set of kernels is for, and needs of a CPU, as the native runtime reads it."""
    return {
        f"{fact}{set_suffix(number)}": value
        for number, cpu in enumerate(target.cpus)
        for fact, value in (
            ("core", str(cpu.mcpu)),
            ("features", " ".join(told_features(cpu))),
        )
    }
