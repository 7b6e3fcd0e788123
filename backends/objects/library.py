"""A compiled module as the shared library that a device loads.

executable, object files of kernels, their names ─link─→ library
"""

from collections.abc import Sequence
from pathlib import Path

import tvm

from odtc.backends.objects.kernel_objects import Objects
from odtc.backends.objects.link import link
from odtc.backends.targets import Target
from odtc.core.disk.left_behind import temporary_folder


def export_library(
    executable: tvm.runtime.Executable,
    output: Path,
    target: Target,
    identity: str = "",
    objects: Objects | None = None,
) -> None:
    """Writes a compiled module as the shared library `output`, with our linker.

    Args:
        executable: compiled for `target`.
        output: a new path.
        target: chooses the linker's output format.
        identity: the build id, in hex; a hash of the library if empty.
        objects: kernels that the executable calls by name.

    Raises:
        BuildError: there is no linker, it cannot be started, or it failed; with what it printed.
    """

    def fcompile(file_name: str, files: Sequence[str], **_: object) -> None:
        given = [*files, *_written(objects, folder)] if objects and objects.files else files
        link([Path(name) for name in given], Path(file_name), target, identity)

    # Symbols that TVM needs where it compiled no kernel itself.
    fcompile.get_target_triple = lambda: target.triple  # pyright: ignore[reportFunctionMemberAccess]
    # TVM's own temporary folder would be left by a process that is killed.
    with temporary_folder() as folder:
        executable.export_library(str(output), fcompile=fcompile, workspace_dir=str(folder))


def _written(objects: Objects, folder: Path) -> list[Path]:
    """The files of kernels, and a linker script that gives these their names."""
    paths = [folder / f"{key}.o" for key in objects.files]
    for path, content in zip(paths, objects.files.values(), strict=True):
        path.write_bytes(content)
    script = folder / "names.ld"
    lines = [f"{name} = {symbol};\n" for name, symbol in sorted(objects.symbols.items())]
    script.write_text("".join(lines), encoding="utf-8")
    return [*paths, script]
