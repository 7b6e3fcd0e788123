"""The archive (AAR) of the runtime for Android, the same for all models: a wheel's, or made here.

`python -m odtc.app.android_runtime` writes it into the package that it is run in: `setup.py` runs
it in what a wheel is made of. It takes a JDK and a compiler for 64-bit ARM. Where there is none,
the wheel is built without the archive, and `odtc export-app` asks for these, as in a checkout.
"""

import hashlib
import shutil
import sys
from pathlib import Path

from odtc.app import java
from odtc.app.archive import write_archive
from odtc.backends.objects.link import find_linker
from odtc.core.errors import BuildError, OdtcError
from odtc.runtime_rpc.native.android import build, compiler

ABI = "jni/arm64-v8a"
# Where a wheel has it, under a name that tells what it was made from.
PREBUILT = Path(__file__).parent / "prebuilt"

_MANIFEST = """\
<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{package}">
    <uses-sdk android:minSdkVersion="{sdk}"/>
</manifest>
"""
# Native code finds classes, constructors and methods by their names.
_KEPT = "-keep class io.odtc.** { *; }\n"


def manifest(package: str) -> bytes:
    """The manifest of an archive, whose package has to be its own."""
    return _MANIFEST.format(package=package, sdk=compiler.LEAST_SDK).encode()


def write_runtime(output: Path) -> None:
    """Writes the archive: the package's, if it was made from the sources that are here.

    Raises:
        BuildError: it has none, and a compiler is missing or failed.
        OSError: a file cannot be written.
    """
    prebuilt = _prebuilt()
    if prebuilt.is_file():
        shutil.copyfile(prebuilt, output)
    else:
        _make(output)


def _make(output: Path) -> None:
    files = {
        "AndroidManifest.xml": manifest("io.odtc"),
        "R.txt": b"",
        "classes.jar": java.classes_jar(),
        "proguard.txt": _KEPT.encode(),
        f"{ABI}/{build.LIBRARY}": build.android_runtime(java.jni_folder()),
    }
    write_archive(output, files)


def _prebuilt() -> Path:
    modules = (Path(each) for each in (build.__file__, compiler.__file__, java.__file__, __file__))
    headers = Path(build.__file__).parent.glob("*.h")
    sources = [*build.FOLDER.glob("*.[ch]"), *build.JAVA.rglob("*.*"), *headers, *modules]
    found = hashlib.sha256()
    for path in sorted(sources, key=lambda path: path.name):
        found.update(b"%s\0%s\0" % (path.name.encode(), path.read_bytes()))
    return PREBUILT / f"odtc-runtime-{found.hexdigest()[:32]}.aar"


def main() -> int:
    """Writes the archive into the package; without the tools for it, says so and writes none."""
    # Folders of builds are kept, and so would be what an older one made.
    shutil.rmtree(PREBUILT, ignore_errors=True)
    PREBUILT.mkdir()
    try:
        java.jni_folder()
        compiler.arm_compiler()
        find_linker(compiler.TARGET)
    except BuildError as error:
        print(f"note: the wheel has no runtime for Android: {error}", file=sys.stderr)
        return 0
    try:
        _make(_prebuilt())
    except OdtcError as error:
        print(f"error: the wheel's runtime for Android: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
