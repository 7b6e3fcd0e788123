"""Matrices of subgroups in loops, for devices that have none: lavapipe of Debian 12.

Each item has all elements of its subgroup's matrices, and all of them compute the same. So what a
kernel copies, multiplies, adds up and hands to its items is that of the kernel, by plain code.
"""

from typing import Any

import pytest
import tvm_ffi
from tvm import ir, tirx

from odtc.backends.spirv import assemble as assembling
from odtc.backends.spirv.assemble import Shader
from odtc.backends.spirv.matrices import is_of_matrices
from odtc.core.ir.matrix_calls import CLEAR, LOAD, MULTIPLY, SIZE, STORE


def multiply_by_items(monkeypatch: pytest.MonkeyPatch, made: list[Shader] | None = None) -> None:
    """Has kernels written with loops in place of matrices; those with them go to `made`."""
    assemble = assembling.assemble

    def by_items(function: tirx.PrimFunc, *, images: bool = False) -> Shader:
        shader = assemble(function, images=images)
        if not shader.subgroup:
            return shader
        if made is not None:
            made.append(shader)
        return assemble(function.with_body(_in_loops(function.body)), images=images)

    monkeypatch.setattr(assembling, "assemble", by_items)


def _in_loops(body: tirx.Stmt) -> tirx.Stmt:
    arrays: dict[Any, tirx.Buffer] = {}

    def allocate(node: tirx.AllocBuffer) -> tirx.Stmt:
        buffer = node.buffer
        if not is_of_matrices(str(buffer.scope())):
            return node
        arrays[buffer] = tirx.decl_buffer(buffer.shape, buffer.dtype, buffer.name, scope="local")
        return tirx.AllocBuffer(arrays[buffer])

    def evaluate(node: tirx.Evaluate) -> tirx.Stmt:
        call = node.value
        name = (
            getattr(call.args[0], "value", None)
            if isinstance(call, ir.Call) and call.args
            else None
        )
        if name not in _LOOPS:
            return node
        arguments = [arrays.get(_buffer(each), each) for each in call.args[1:]]
        return _LOOPS[name](*arguments)

    body = tvm_ffi.structural_map(body, (tirx.AllocBuffer, allocate))
    return tvm_ffi.structural_map(body, (tirx.Evaluate, evaluate))


def _buffer(of: Any) -> Any:
    return of.args[0] if isinstance(of, ir.Call) and of.args else of


def _clear(sums: Any, number: Any) -> tirx.Stmt:
    return _each(lambda r, c: _put(sums, number, r, c, tirx.const(0.0, str(sums.dtype))))


def _load(matrices: Any, number: Any, address: Any, pitch: Any, by_columns: Any) -> tirx.Stmt:
    def one(r: Any, c: Any) -> tirx.Stmt:
        near, at = _near(address, pitch, by_columns, r, c)
        return _put(matrices, number, r, c, tirx.BufferLoad(near, [at]))

    return _each(one)


def _store(sums: Any, number: Any, address: Any, pitch: Any, by_columns: Any) -> tirx.Stmt:
    def one(r: Any, c: Any) -> tirx.Stmt:
        near, at = _near(address, pitch, by_columns, r, c)
        return tirx.BufferStore(near, _at(sums, number, r, c), [at])

    return _each(one)


def _multiply(sums: Any, number: Any, left: Any, i: Any, right: Any, j: Any, _: Any) -> tirx.Stmt:
    def one(r: Any, c: Any) -> tirx.Stmt:
        k = tirx.Var("k", "int32")
        factors = (_at(left, i, r, k), _at(right, j, k, c))
        product = tirx.Mul(*(tirx.Cast("float32", each) for each in factors))
        added = _put(sums, number, r, c, _at(sums, number, r, c) + product)
        return tirx.For(k, 0, SIZE, tirx.ForKind.SERIAL, added)

    return _each(one)


_LOOPS = {CLEAR: _clear, LOAD: _load, STORE: _store, MULTIPLY: _multiply}


def _each(run: Any) -> tirx.Stmt:
    r, c = (tirx.Var(name, "int32") for name in "rc")
    inner = tirx.For(c, 0, SIZE, tirx.ForKind.SERIAL, run(r, c))
    return tirx.For(r, 0, SIZE, tirx.ForKind.SERIAL, inner)


def _near(address: Any, pitch: Any, by_columns: Any, r: Any, c: Any) -> tuple[Any, Any]:
    (element,) = address.args
    (first,) = element.indices
    return element.source, first + (c * pitch + r if int(by_columns) else r * pitch + c)


def _at(matrices: Any, number: Any, r: Any, c: Any) -> Any:
    return tirx.BufferLoad(matrices, [number * SIZE**2 + r * SIZE + c])


def _put(matrices: Any, number: Any, r: Any, c: Any, value: Any) -> tirx.Stmt:
    return tirx.BufferStore(matrices, value, [number * SIZE**2 + r * SIZE + c])
