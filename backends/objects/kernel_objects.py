"""Kernels as object files, each compiled once: within a module, and between runs.

    kernel ─JSON, target, versions─→ key ─┬─ kept ───────────────→ object file
                                          └─ TVM, LLVM ─→ keep ──→

In its object file a kernel is called by its key, and the linker gives it its name in the library:
kernels that compute the same under several names share one.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import tvm
from tvm import tirx

from odtc.backends import vector_math
from odtc.backends.objects.kernel_store import kernel_store
from odtc.backends.objects.outlines import NotKeptError, code_of, is_outline, keep, unmarked
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.disk.package_files import libraries
from odtc.core.process.side_by_side import side_by_side

# Of a key, in the name of its kernel: they make names within one library unique.
_DIGITS = 32
# TVM's prefix of function names.
_SYMBOL = "__tvm_ffi_"
# Sources that determine a kernel's code, beside TVM.
_SOURCES = (__file__, vector_math.__file__)


@dataclass(frozen=True)
class Objects:
    """Kernels as machine code.

    Attributes:
        files: object files, by the keys of the kernels.
        keys: of the kernels, by their names.
    """

    files: Mapping[str, bytes]
    keys: Mapping[str, str]

    @property
    def symbols(self) -> dict[str, str]:
        """Symbols of the object files, by those that a library has to have in their place."""
        return {_SYMBOL + name: _SYMBOL + _function(key) for name, key in self.keys.items()}


def kernel_objects(kernels: Mapping[str, tirx.PrimFunc], target: tvm.target.Target) -> Objects:
    """Compiles kernels in the pass context of this thread, side by side.

    Args:
        kernels: by their names.
        target: of LLVM's.

    Raises:
        NotKeptError: the code of an outline is not kept any more.
    """
    store, context = kernel_store(), pass_context()
    plain = {name: unmarked(made) for name, made in kernels.items() if not is_outline(made)}

    def key_of(name: str) -> str:
        if name in plain:
            return _key(plain[name], f"{target} {context}")
        return code_of(kernels[name])

    names = sorted(kernels)
    keys = dict(zip(names, side_by_side(key_of, names), strict=True))
    unique = {keys[name]: made for name, made in plain.items()}
    now = tvm.transform.PassContext.current()
    level, config = now.opt_level, dict(now.config)

    def file_of(key: str) -> bytes:
        kept = store.get(key)
        if kept is None:
            if key not in unique:
                raise NotKeptError
            # A target and a pass context hold for one thread.
            with target, tvm.transform.PassContext(opt_level=level, config=config):
                kept = _compiled(unique[key], _function(key), target)
            store.put(key, kept)
        return kept

    order = sorted(set(keys.values()))
    files = dict(zip(order, side_by_side(file_of, order), strict=True))
    for name in plain:
        keep(kernels[name], keys[name])
    return Objects(files, keys)


def _compiled(kernel: tirx.PrimFunc, name: str, target: tvm.target.Target) -> bytes:
    """The object file of a kernel under a name."""
    module = tvm.IRModule({name: kernel.with_attr("global_symbol", name)})
    built = tvm.tirx.build(module, target)
    with temporary_folder() as folder:
        path = folder / "kernel.o"
        built.write_to_file(str(path))
        return path.read_bytes()


def _key(kernel: tirx.PrimFunc, made_by: str) -> str:
    text = tvm.ir.save_json(kernel)
    return hashlib.sha256(f"{_toolchain()} {made_by} {text}".encode()).hexdigest()


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
