"""Writes what an app needs of a compiled step, for one of several platforms.

artifact ─model_of─→ Model ─write of the platform─→ a new folder
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odtc.app import android, ios, linux
from odtc.app.model import Model, check_kernels, default_name, model_of
from odtc.artifact import Artifact
from odtc.core.disk.files import atomic_folder
from odtc.core.errors import UsageError


@dataclass(frozen=True)
class Platform:
    """Where an app runs.

    Attributes:
        system: in the triples of targets that it runs steps of.
        target: one of these, for a hint.
        write: writes a model for it into a folder.
    """

    system: str
    target: str
    write: Callable[[Model, Path], None]


PLATFORMS = {
    "linux": Platform("linux-gnu", "host-cpu or linux-arm64-cpu", linux.write),
    "android": Platform("linux-android", "android-cpu", android.write),
    "ios": Platform("apple-ios", "ios-cpu", ios.write),
}


def export_app(
    artifact: Artifact,
    platform: str,
    output: str | os.PathLike[str],
    name: str,
) -> list[Path]:
    """Writes a new folder, whole or not at all; returns the files in it.

    Args:
        artifact: compiled for a CPU of the platform.
        platform: a key of `PLATFORMS`.
        output: the folder; it may be there if it is empty.
        name: of the model in the app, other than those of the app's other models.

    Raises:
        UsageError: the artifact is for another platform, or the name is none.
        UnsupportedError: its step runs in TVM alone.
        BuildError: a compiler is missing or failed, or the platform would not load the kernels.
        OutputError: the folder cannot be written, or has files in it.
    """
    to = PLATFORMS[platform]
    model = model_of(artifact._bundle.opened(), name)
    if to.system not in model.target.triple:
        raise UsageError(
            f"the artifact is for {model.target.name}, which does not run on {platform}",
            hint=f"compile the model with --target {to.target}",
        )
    check_kernels(model)
    with atomic_folder(output) as folder:
        to.write(model, folder)
    return sorted(path for path in Path(output).rglob("*") if path.is_file())


__all__ = ["PLATFORMS", "Platform", "default_name", "export_app"]
