"""A step for an Android app: archives (AAR) of the runtime and of the model, which Gradle takes.

The runtime is the same for all models, and an app has it once. A model's archive has its kernels,
which are code and come with the app, and as assets what is data: its program and its weights, which
an app may also fetch later.
"""

from pathlib import Path

from odtc.app.android_runtime import ABI, manifest, write_runtime
from odtc.app.archive import write_archive
from odtc.app.java import java_sources
from odtc.app.model import Model


def write(model: Model, folder: Path) -> None:
    """Writes the archives into a folder.

    Raises:
        BuildError: a compiler is missing or failed.
        OSError: a file cannot be written.
    """
    assets = f"assets/odtc/{model.name}"
    own = {
        "AndroidManifest.xml": manifest(f"io.odtc.model_{model.name}"),
        "R.txt": b"",
        f"{ABI}/{model.kernels}": model.library,
        **{f"{assets}/{name}": path for name, path in model.data.items()},
    }
    write_runtime(folder / "odtc-runtime.aar")
    write_archive(folder / "odtc-runtime-sources.jar", java_sources())
    write_archive(folder / f"{model.name}.aar", own)
