"""Lets TVM call our assembler when it compiles for Vulkan."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi

from odtc.backends.spirv.assemble import device_module
from odtc.backends.spirv.maths import register_maths
from odtc.backends.spirv.module_of_bytes import vulkan_module
from odtc.core.errors import BuildError


@contextmanager
def spirv_code(*, images: bool = False) -> Iterator[None]:
    """A block in which TVM writes kernels as SPIR-V; loops stay loops with a hint to unroll them.

    Args:
        images: whether kernels may be told to read images.

    Raises:
        BuildError: a kernel has something that cannot be written so.
    """
    register_maths()
    failures: list[BuildError] = []

    def built(module: tvm.IRModule, _: Any) -> Any:
        """The device module, as it is written into a library."""
        try:
            return vulkan_module(device_module(module, images=images))
        except BuildError as error:
            failures.append(error)
            raise

    tvm_ffi.register_global_func("target.build.vulkan", built, override=True)
    try:
        with tvm.transform.PassContext(config={"tirx.UnrollLoop": {"explicit_unroll": 0}}):
            yield
    except RuntimeError:
        # An error loses its class on its way through TVM.
        if failures:
            raise failures[0] from None
        raise
