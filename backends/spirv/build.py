"""How TVM comes to our assembler when it compiles for Vulkan."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi

from odtc.backends.native.build import load_runtime
from odtc.backends.spirv.assemble import device_module
from odtc.backends.spirv.maths import register_maths


@contextmanager
def spirv_code() -> Iterator[None]:
    """Within it, TVM writes kernels as SPIR-V; loops stay loops with a hint to unroll them."""
    load_runtime("vulkan")
    register_maths()
    tvm_ffi.register_global_func("target.build.vulkan", _built, override=True)
    with tvm.transform.PassContext(config={"tirx.UnrollLoop": {"explicit_unroll": 0}}):
        yield


def _built(module: tvm.IRModule, _: Any) -> Any:
    """The device module, as the runtime loads it from a library."""
    return tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")(device_module(module))
