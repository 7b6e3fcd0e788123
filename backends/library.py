"""A compiled module as the shared library that a device loads.

executable ─side by side─→ object files ─link─→ library
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tvm

from odtc.backends.link import link
from odtc.backends.targets import Target
from odtc.core.left_behind import temporary_folder
from odtc.core.side_by_side import side_by_side

# What TVM calls a module that is yet to become machine code.
_CODE = "llvm"


def export_library(
    executable: tvm.runtime.Executable, output: Path, target: Target, identity: str = ""
) -> None:
    """Writes a compiled module as the shared library `output`, with our linker.

    Args:
        executable: what was compiled for `target`.
        output: a new path.
        target: chooses the linker's output format.
        identity: the build id, in hex; a hash of the library if empty.

    Raises:
        BuildError: there is no linker, it cannot be started, or it failed; with what it printed.
    """

    def fcompile(file_name: str, objects: Sequence[str], **_: object) -> None:
        link([Path(name) for name in objects], Path(file_name), target, identity)

    # TVM's own folder would stay behind a process that is killed.
    with temporary_folder() as folder, _as_objects(executable.mod):
        executable.export_library(str(output), fcompile=fcompile, workspace_dir=str(folder))


@contextmanager
def _as_objects(module: tvm.runtime.Module) -> Iterator[None]:
    """A block in which parts of a module are object files: TVM would write them one by one.

    The first part stays what it is: by it TVM sees what all others are for.
    """
    imports = list(module.imports)
    code = [part for part in imports[1:] if part.kind == _CODE and not part.imports]
    with temporary_folder() as folder:

        def written(number: int) -> tvm.runtime.Module:
            path = str(Path(folder, f"{number}.o"))
            code[number].write_to_file(path)
            return tvm.runtime.load_static_library(path, [])

        others = [part for part in imports if part not in code]
        _import_only(module, [*others, *side_by_side(written, range(len(code)))])
        try:
            yield
        finally:
            _import_only(module, imports)


def _import_only(module: tvm.runtime.Module, parts: Sequence[tvm.runtime.Module]) -> None:
    module.clear_imports()
    for part in parts:
        module.import_module(part)
