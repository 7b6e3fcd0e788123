"""A step for an Android app: archives (AAR) of the runtime and of the model, which Gradle takes.

The runtime is the same for all models, and an app has it once. A model's archive has its kernels,
which are code and come with the app, and as assets what is data: its program and its weights, which
an app may also fetch later.
"""

from pathlib import Path

from odtc.app.archive import write_archive
from odtc.app.java import classes_jar, java_sources, jni_folder
from odtc.app.model import PROGRAM, WEIGHTS, Model
from odtc.runtime_rpc.native.android.build import LEAST_SDK, LIBRARY, android_runtime

_ABI = "jni/arm64-v8a"
_MANIFEST = """\
<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{package}">
    <uses-sdk android:minSdkVersion="{sdk}"/>
</manifest>
"""
# Native code finds classes, constructors and methods by their names.
_KEPT = "-keep class io.odtc.** { *; }\n"


def write(model: Model, folder: Path) -> None:
    """Writes the archives into a folder.

    Raises:
        BuildError: a compiler is missing or failed.
        OSError: a file cannot be written.
    """
    runtime = {
        "AndroidManifest.xml": _manifest("io.odtc"),
        "R.txt": b"",
        "classes.jar": classes_jar(),
        "proguard.txt": _KEPT.encode(),
        f"{_ABI}/{LIBRARY}": android_runtime(jni_folder()),
    }
    assets = f"assets/odtc/{model.name}"
    own = {
        "AndroidManifest.xml": _manifest(f"io.odtc.model_{model.name}"),
        "R.txt": b"",
        f"{_ABI}/{model.kernels}": model.library,
        f"{assets}/{PROGRAM}": model.program,
        f"{assets}/{WEIGHTS}": model.weights,
    }
    write_archive(folder / "odtc-runtime.aar", runtime)
    write_archive(folder / "odtc-runtime-sources.jar", java_sources())
    write_archive(folder / f"{model.name}.aar", own)


def _manifest(package: str) -> bytes:
    return _MANIFEST.format(package=package, sdk=LEAST_SDK).encode()
