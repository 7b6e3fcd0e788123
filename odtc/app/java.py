"""The class of the JVM, compiled, and a JDK for that."""

import shutil
import subprocess
from pathlib import Path

from odtc.app.archive import archive
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import BuildError
from odtc.runtime_rpc.native.android.build import JAVA

# What Android's tools have taken for longest.
_RELEASE = "8"
_HINT = "run `apt-get install openjdk-17-jdk-headless`, or put the javac of another JDK on PATH"


def jni_folder() -> Path:
    """The folder of `jni.h` of the JDK whose compiler is on PATH.

    Raises:
        BuildError: there is none.
    """
    javac = shutil.which("javac")
    folder = Path(javac).resolve().parents[1] / "include" if javac else None
    if folder is None or not (folder / "jni.h").exists():
        raise BuildError("no JDK was found for the class of the JVM", hint=_HINT)
    return folder


def java_sources() -> dict[str, bytes | Path]:
    """The class of the JVM as it is written, for development environments to show."""
    paths = (JAVA / "io").rglob("*.java")
    return {path.relative_to(JAVA).as_posix(): path for path in paths}


def classes_jar() -> bytes:
    """The class of the JVM, compiled.

    Raises:
        BuildError: the compiler is missing or failed; with what it printed.
        OSError: there is no room for temporary files.
    """
    jni_folder()
    sources = [str(path) for path in sorted((JAVA / "io").rglob("*.java"))]
    with temporary_folder() as folder:
        # Newer compilers warn that the release is an old one.
        command = ["javac", "--release", _RELEASE, "-Xlint:all,-options", "-Werror"]
        done = subprocess.run(
            [*command, "-encoding", "UTF-8", "-d", str(folder), *sources],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise BuildError(
                f"the class of the JVM does not compile:\n{done.stderr.strip()[-2000:]}",
                where="javac",
                hint=_HINT,
            )
        classes = folder.rglob("*.class")
        return archive({path.relative_to(folder).as_posix(): path for path in classes})
