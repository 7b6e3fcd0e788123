"""The processor that tests compile single kernels for, and run them on: this machine's."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import tvm
import tvm_ffi

from odtc.backends import targets, vector_math
from odtc.backends.objects import link
from odtc.core.disk.content_store import ContentStore
from odtc.core.disk.files import cache_folder
from tests.caches import KEPT
from tests.fast import ALL

# What a kernel computes does not depend on how much LLVM makes of it, which is half of the time
# that the fast tests of kernels would take. What odtc builds is optimised in all tests.
HOST = tvm.target.Target({"kind": "llvm"} if ALL else {"kind": "llvm", "opt-level": 0})
_MOST_BYTES = 1 << 29


def loaded(module: tvm.IRModule, target: tvm.target.Target = HOST) -> tvm.runtime.Module:
    """A module as the library that it compiles to.

    That is kept between runs: TVM and LLVM make equal libraries of modules that are equal. What
    made the module is no part of its key, and runs each time. Linked, it is there in less time
    than LLVM takes within this process.

    Args:
        module: of kernels, or of Relax for `relax.VirtualMachine`.
        target: of LLVM's, for this machine.
    """
    # What has been compiled in this process before makes no difference.
    vector_math.register_vector_math()
    store = ContentStore(cache_folder().with_name(KEPT) / "modules", _MOST_BYTES)
    key = _key(module, target)
    library = store.get(key)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{key}.so")
        if library is None:
            tvm.compile(module, target).export_library(
                str(path), fcompile=_linked, workspace_dir=folder
            )
            store.put(key, path.read_bytes())
        else:
            path.write_bytes(library)
        # TVM would keep each until the process ends.
        return tvm_ffi.load_module(str(path), keep_module_alive=False)


def _linked(output: str, objects: Sequence[str], **_: object) -> None:
    link.link([Path(each) for each in objects], Path(output), targets.parse_target("host-cpu"))


# What TVM asks for where it compiled no kernel itself.
_linked.get_target_triple = lambda: targets.parse_target("host-cpu").triple  # pyright: ignore[reportFunctionMemberAccess]


def _key(module: tvm.IRModule, target: tvm.target.Target) -> str:
    now = tvm.transform.PassContext.current()
    config = {name: str(value) for name, value in now.config.items()}
    context = json.dumps([str(target), now.opt_level, config], sort_keys=True)
    text = f"{_compiler()} {context} {tvm.ir.save_json(module)}"
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _compiler() -> str:
    sources = [Path(str(each.__file__)).read_text() for each in (vector_math, link)]
    return json.dumps([version("apache-tvm"), version("apache-tvm-ffi"), *sources])
