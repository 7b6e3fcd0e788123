"""Copies between the arena and the storage that a step may let tensors wait in.

store: tensor ─kernel, in place→ bytes of the argument `storage`
fetch: bytes of `storage` ─kernel→ a new tensor of the arena
"""

import math

import tvm
from tvm import relax, tirx

from odtc.core.specs import STORAGE

# Elements that a thread copies at a time.
_CHUNK = 1 << 14


class StorageCopies:
    """Calls of kernels that copy, for all plans of a module.

    Args:
        module: that the kernels are added to.
        nbytes: of the storage.
    """

    def __init__(self, module: tvm.IRModule, nbytes: int) -> None:
        self._builder = relax.BlockBuilder(module)
        self._type = relax.TensorType((nbytes,), "uint8")
        self._nbytes = nbytes

    @property
    def module(self) -> tvm.IRModule:
        """The module with the kernels so far."""
        return self._builder.get()

    def argument(self) -> relax.Var:
        """A new last argument of a function."""
        return relax.Var(STORAGE, self._type)

    def store(self, tensor: relax.Var, storage: relax.Var, offset: int) -> relax.Call:
        """The call that writes a tensor; its result is the storage."""
        kernel = self._builder.add_func(self._kernel(tensor.ty, offset, fetches=False), "store")
        given = relax.Tuple([storage, tensor])
        return self._normal(relax.op.call_tir_inplace(kernel, given, [0], [self._type]))

    def fetch(self, type_: relax.TensorType, storage: relax.Var, offset: int) -> relax.Call:
        """The call that makes a tensor of what was written."""
        kernel = self._builder.add_func(self._kernel(type_, offset, fetches=True), "fetch")
        return self._normal(relax.call_tir(kernel, relax.Tuple([storage]), type_))

    def _normal(self, call: relax.Call) -> relax.Call:
        return self._builder.normalize(call)

    def _kernel(self, type_: relax.TensorType, offset: int, *, fetches: bool) -> tirx.PrimFunc:
        """A loop over chunks; both sides are seen as lines of elements."""
        shape, dtype = [int(size) for size in type_.shape], str(type_.dtype)
        count = math.prod(shape)
        storage = tirx.decl_buffer([self._nbytes], "uint8", STORAGE)
        tensor = tirx.decl_buffer(shape, dtype, "tensor")
        waiting = tirx.decl_buffer([count], dtype, "waiting")
        line = tirx.decl_buffer([count], dtype, "line")
        place = tirx.BufferLoad(storage, [tirx.const(offset, "int64")])
        first = tirx.BufferLoad(tensor, [tirx.const(0, "int64")] * len(shape))
        source, target = (waiting, line) if fetches else (line, waiting)
        chunk, inner = tirx.Var("chunk", "int64"), tirx.Var("inner", "int64")
        start = chunk * tirx.const(_CHUNK, "int64")
        copied = tirx.BufferStore(target, tirx.BufferLoad(source, [start + inner]), [start + inner])
        length = tirx.Min(tirx.const(_CHUNK, "int64"), tirx.const(count, "int64") - start)
        body = tirx.For(inner, tirx.const(0, "int64"), length, tirx.ForKind.SERIAL, copied)
        chunks = tirx.const(-(-count // _CHUNK), "int64")
        loop = tirx.For(chunk, tirx.const(0, "int64"), chunks, tirx.ForKind.PARALLEL, body)
        views = [
            tirx.DeclBuffer(waiting, data=tirx.address_of(place)),
            tirx.DeclBuffer(line, data=tirx.address_of(first)),
        ]
        function = tirx.PrimFunc([storage, tensor], tirx.SeqStmt([*views, loop]))
        return function.with_attr("tirx.noalias", True)
