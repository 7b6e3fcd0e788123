"""Kernels for tests, as TVM gives them to the code generator; a group is 64 numbers of int32."""

from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.backends.spirv.assemble import Shader, assemble

# pyright: reportInvalidTypeForm=false
GROUP = 64
_SIZES = ["blockIdx.x", "threadIdx.x"]


@parsed.prim_func(private=False, s_tir=True)
def _scale(a: T.handle("int32"), b: T.handle("int32"), n: T.int32, at: T.int32, to: T.int32):
    T.func_attr({"global_symbol": "scale", "tirx.kernel_launch_params": _SIZES})
    source = T.decl_buffer((1 << 20,), "int32", data=a)
    out = T.decl_buffer((1 << 20,), "int32", data=b)
    block = T.launch_thread("blockIdx.x", 1 << 18)
    item = T.launch_thread("threadIdx.x", 64)
    out[to + block * 64 + item] = source[at + block * 64 + item] * n + 1


@parsed.prim_func(private=False, s_tir=True)
def _add(a: T.handle("int32"), b: T.handle("int32"), at: T.int32):
    """`b[i] += a[i]`, from an element on."""
    T.func_attr({"global_symbol": "add", "tirx.kernel_launch_params": _SIZES})
    source = T.decl_buffer((1 << 20,), "int32", data=a)
    out = T.decl_buffer((1 << 20,), "int32", data=b)
    block = T.launch_thread("blockIdx.x", 1 << 18)
    item = T.launch_thread("threadIdx.x", 64)
    out[at + block * 64 + item] = out[at + block * 64 + item] + source[at + block * 64 + item]


@parsed.prim_func(private=False, s_tir=True)
def _double(a: T.handle("float32"), b: T.handle("float32"), at: T.int32):
    """`b[i] = 2 * a[at + i]` of float32, in vectors of four, which may be read from an image."""
    T.func_attr({"global_symbol": "double", "tirx.kernel_launch_params": _SIZES})
    source = T.decl_buffer((1 << 20,), "float32", data=a)
    out = T.decl_buffer((1 << 20,), "float32", data=b)
    block = T.launch_thread("blockIdx.x", 1 << 18)
    item = T.launch_thread("threadIdx.x", 16)
    first: T.let = block * 64 + item * 4
    out[T.Ramp(first, 1, 4)] = source[T.Ramp(at + first, 1, 4)] * T.Broadcast(T.float32(2), 4)


@parsed.prim_func(private=False, s_tir=True)
def _double_halves(a: T.handle("float16"), b: T.handle("float32"), at: T.int32):
    """The same of float16."""
    T.func_attr({"global_symbol": "double", "tirx.kernel_launch_params": _SIZES})
    source = T.decl_buffer((1 << 20,), "float16", data=a)
    out = T.decl_buffer((1 << 20,), "float32", data=b)
    block = T.launch_thread("blockIdx.x", 1 << 18)
    item = T.launch_thread("threadIdx.x", 16)
    first: T.let = block * 64 + item * 4
    out[T.Ramp(first, 1, 4)] = T.Cast("float32x4", source[T.Ramp(at + first, 1, 4)]) * T.Broadcast(
        T.float32(2), 4
    )


# `b[to + i] = a[at + i] * n + 1`; numbers n, at, to.
SCALE: Shader = assemble(_scale)
ADD: Shader = assemble(_add)
DOUBLE: Shader = assemble(_double, images=True)
DOUBLE_HALVES: Shader = assemble(_double_halves, images=True)


def many_numbers(count: int) -> Shader:
    """A kernel of one group, which writes the numbers that it is given."""
    source = "\n".join(
        [
            "@T.prim_func(s_tir=True)",
            f"def main(a: T.handle('int32'), {', '.join(f'n{i}: T.int32' for i in range(count))}):",
            "    T.func_attr({'global_symbol': 'numbers',",
            f"        'tirx.kernel_launch_params': {_SIZES}}})",
            f"    out = T.decl_buffer(({count},), 'int32', data=a)",
            "    block = T.launch_thread('blockIdx.x', 1)",
            "    item = T.launch_thread('threadIdx.x', 1)",
            *(f"    out[{i}] = n{i} + item + block" for i in range(count)),
        ]
    )
    return assemble(_parsed(source))


def sharing(count: int) -> Shader:
    """A kernel of 64 items, which share so many numbers."""
    source = f"""
@T.prim_func(s_tir=True)
def main(a: T.handle('int32')):
    T.func_attr({{'global_symbol': 'sharing', 'tirx.kernel_launch_params': {_SIZES}}})
    out = T.decl_buffer((64,), 'int32', data=a)
    block = T.launch_thread('blockIdx.x', 1)
    item = T.launch_thread('threadIdx.x', 64)
    near = T.alloc_buffer(({count},), 'int32', scope='shared')
    near[item] = item + block
    T.tvm_storage_sync('shared')
    out[item] = near[63 - item]
"""
    return assemble(_parsed(source))


def _parsed(source: str) -> tirx.PrimFunc:
    import tvm

    return tvm.script.from_source(source, {"T": T})
