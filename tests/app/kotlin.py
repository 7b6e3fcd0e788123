"""Kotlin's compiler, out of a package of Python that brings it, and the JVM that runs it."""

import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

_COMPILER = "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"
# Of a JVM that lives for some seconds.
_SHORT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def jars() -> list[Path]:
    """The compiler, the standard library and coroutines; none where the package is missing."""
    spec = find_spec("run_kotlin_kernel")
    folders = spec.submodule_search_locations if spec else None
    return sorted(path for each in folders or () for path in Path(each).glob("jars/*.jar"))


def class_path(more: Iterable[Path]) -> str:
    return ":".join(map(str, (*more, *jars())))


def compile_kotlin(sources: Iterable[Path], more: Iterable[Path], output: Path) -> None:
    """Compiles sources into a folder of classes; a warning is an error.

    Args:
        sources: of Kotlin.
        more: jars and folders that they need beside Kotlin's own.
        output: the folder.

    Raises:
        AssertionError: they do not compile; with what the compiler said.
    """
    command = ["java", *_SHORT, "-cp", class_path(()), _COMPILER, "-no-stdlib", "-no-reflect"]
    command += ["-Werror", "-jvm-target", "17", "-cp", class_path(more), "-d", str(output)]
    done = subprocess.run(
        [*command, *map(str, sources)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
