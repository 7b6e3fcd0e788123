"""Kernels as object files, each compiled once: within a module, and between runs.

    kernel ─JSON, target, versions─→ key ─┬─ kept ───────────────→ object file
                                          └─ TVM, LLVM ─→ keep ──→

In its object file a kernel is called by its key, and the linker gives it its name in the library:
kernels that compute the same under several names share one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import tvm
from tvm import tirx

from odtc.backends import vector_math
from odtc.backends.objects.kernel_store import kernel_store
from odtc.backends.objects.kernel_text import text_of
from odtc.backends.objects.object_file import loaded_bytes, with_own_helpers
from odtc.backends.objects.outlines import NotKeptError, code_of, is_outline, keep, unmarked
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.disk.package_files import libraries
from odtc.core.process.side_by_side import side_by_side

# Of a key, in the name of its kernel: they make names within one library unique.
_DIGITS = 32
# TVM's prefix of function names.
_SYMBOL = "__tvm_ffi_"
# What TVM says of a variable that is defined behind its use.
_USED_FIRST = "has been used before definition"
# Sources that determine a kernel's code, beside TVM.
_SOURCES = (__file__, vector_math.__file__)


@dataclass(frozen=True)
class Objects:
    """Kernels as machine code.

    Attributes:
        files: object files, by the keys of the kernels.
        keys: of the kernels, by their names; those of a further target have its number behind a
            dot.
    """

    files: Mapping[str, bytes]
    keys: Mapping[str, str]

    def bytes_of(self, number: int) -> int:
        """Bytes of the kernels for the target of a number, of which the first is 0."""
        end = set_suffix(number)
        own = {
            key
            for name, key in self.keys.items()
            if name.endswith(end) and ("." in name) == bool(end)
        }
        return sum(loaded_bytes(self.files[key]) for key in own)

    @property
    def symbols(self) -> dict[str, str]:
        """Symbols of the object files, by those that a library has to have in their place."""
        return {_SYMBOL + name: _SYMBOL + _function(key) for name, key in self.keys.items()}


def kernel_objects(
    kernels: Mapping[str, tirx.PrimFunc],
    target: tvm.target.Target,
    also: Sequence[tvm.target.Target] = (),
) -> Objects:
    """Compiles kernels in the pass context of this thread, side by side.

    Args:
        kernels: by their names.
        target: of LLVM's, for which the kernels are lowered.
        also: further ones, for each of which LLVM compiles the same kernels once more.

    Raises:
        NotKeptError: the code of an outline is not kept any more.
    """
    store, context, targets = kernel_store(), pass_context(), (target, *also)
    plain = {name: unmarked(made) for name, made in kernels.items() if not is_outline(made)}

    def keys_of(name: str) -> list[str]:
        if name in plain:
            return _keys(plain[name], [f"{each} {context}" for each in targets])
        return code_of(kernels[name])

    names = sorted(kernels)
    keys = dict(zip(names, side_by_side(keys_of, names), strict=True))
    unique = {
        key: (made, for_target)
        for name, made in plain.items()
        for key, for_target in zip(keys[name], targets, strict=True)
    }
    now = tvm.transform.PassContext.current()
    level, config = now.opt_level, dict(now.config)

    def file_of(key: str) -> bytes:
        kept = store.get(key)
        if kept is None:
            if key not in unique:
                raise NotKeptError
            made, for_target = unique[key]
            # A target and a pass context hold for one thread.
            with for_target, tvm.transform.PassContext(opt_level=level, config=config):
                kept = _compiled(made, _function(key), for_target)
            store.put(key, kept)
        return kept

    named = {
        f"{name}{set_suffix(number)}": key
        for name, own in keys.items()
        for number, key in enumerate(own)
    }
    numbers = {key: number for own in keys.values() for number, key in enumerate(own)}
    order = sorted(numbers)
    made = zip(order, side_by_side(file_of, order), strict=True)
    files = {
        key: with_own_helpers(file, numbers[key]) if numbers[key] else file for key, file in made
    }
    for name in plain:
        keep(kernels[name], keys[name])
    return Objects(files, named)


def set_suffix(number: int) -> str:
    """The end of a kernel's name, and of a fact's of the program, for a target's further CPU."""
    return f".{number}" if number else ""


def _compiled(kernel: tirx.PrimFunc, name: str, target: tvm.target.Target) -> bytes:
    """The object file of a kernel under a name."""
    built = _built(tvm.IRModule({name: kernel.with_attr("global_symbol", name)}), target)
    with temporary_folder() as folder:
        path = folder / "kernel.o"
        built.write_to_file(str(path))
        return path.read_bytes()


def _built(module: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Module:
    """Builds a module; where TVM's pass over common subexpressions fails, without that pass.

    A subexpression that the address of a buffer shares with an index is defined behind the
    declaration of the buffer. TVM finds that out itself, as an error. LLVM eliminates common
    subexpressions, too.
    """
    try:
        return tvm.tirx.build(module, target)
    except tvm.error.InternalError as error:
        if _USED_FIRST not in str(error):
            raise
    now = tvm.transform.PassContext.current()
    config = {**now.config, "tirx.disable_cse_tir": True}
    with tvm.transform.PassContext(opt_level=now.opt_level, config=config):
        return tvm.tirx.build(module, target)


def _keys(kernel: tirx.PrimFunc, made_by: Sequence[str]) -> list[str]:
    text = text_of(kernel)
    return [
        hashlib.sha256(f"{_toolchain()} {each} {text}".encode()).hexdigest() for each in made_by
    ]


def _function(key: str) -> str:
    """Returns the name of a kernel's function in its object file."""
    return f"k{key[:_DIGITS]}"


def pass_context() -> str:
    """Returns the settings of TVM's pass context in this thread, as JSON."""
    now = tvm.transform.PassContext.current()
    config = {name: str(value) for name, value in now.config.items()}
    return json.dumps({"level": now.opt_level, **config}, sort_keys=True)


@cache
def _toolchain() -> str:
    """Returns the identity of the toolchain: its versions, and its files where we have them."""
    sources = b"".join(Path(each).read_bytes() for each in _SOURCES)
    built = [(name, size) for name, size, _ in libraries()]
    ours = hashlib.sha256(sources).hexdigest()
    return f"{version('apache-tvm')} {version('apache-tvm-ffi')} {built} {ours}"
