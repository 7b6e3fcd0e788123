"""Turns a step's arena into its last argument, so that the caller decides where it lies.

    arena = alloc_storage(N); t = alloc_tensor(arena, offset, ...)  →  t = view of the argument

A caller chooses the pages that an arena lies in, which TVM's allocator does not, and can keep those
that two plans share.

The argument is a tuple of one tensor: over RPC a tensor comes as a pointer, of which no view is
made, and a tuple as what it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.artifact.manifest import allocator_of
from odtc.core.ir.relax_calls import is_call
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of, with_bindings

_STORAGE, _TENSOR = "relax.memory.alloc_storage", "relax.memory.alloc_tensor"
_VIEW = "runtime.TVMTensorCreateView"


@dataclass(frozen=True)
class TakeArena(Pass):
    """Makes the arena of a step its last argument, and adds a function that makes that.

    It is for devices on which a caller cannot allocate such a tuple itself.

    Attributes:
        functions: their names.
    """

    name: ClassVar[str] = "take-arena"
    functions: Sequence[str] = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions."""
        given = module.clone()
        for name in self.functions:
            function, nbytes = _given(module[name])
            given.update_func(module.get_global_var(name), function)
            given[allocator_of(name)] = _allocating(allocator_of(name), nbytes)
        return relax.transform.Normalize()(given)


def _given(function: relax.Function) -> tuple[relax.Function, int]:
    """A function that takes its arena as an argument, and the arena's bytes."""
    bindings = bindings_of(function)
    (storage,) = (each for each in bindings if is_call(each.value, _STORAGE))
    nbytes = int(storage.value.args[0].values[0])
    arena = relax.Var("arena", _type_of(nbytes))
    memory = relax.Var("memory", arena.ty.fields[0])

    def placed(binding: relax.Binding) -> relax.Binding:
        if binding is storage:
            return relax.VarBinding(memory, relax.TupleGetItem(arena, 0))
        if is_call(binding.value, _TENSOR):
            _, offset, shape, dtype, *_ = binding.value.args
            place = [memory, shape, dtype, offset]
            view = relax.Call(relax.ExternFunc(_VIEW), place, ty_args=[binding.var.ty])
            return relax.VarBinding(binding.var, view)
        return binding

    made = with_bindings(function, [placed(each) for each in bindings])
    parameters = [*made.params, arena]
    given = relax.Function(parameters, made.body, made.ret_ty, made.is_pure, made.attrs)
    return given, nbytes


def _type_of(nbytes: int) -> relax.TupleType:
    return relax.TupleType([relax.TensorType((nbytes,), "uint8")])


def _allocating(name: str, nbytes: int) -> relax.Function:
    """A function that allocates an arena where its virtual machine runs."""
    builder = relax.BlockBuilder()
    with builder.function(name, [], attrs={"relax.force_pure": True}):
        shape = relax.ShapeExpr([nbytes])
        made = builder.emit(relax.op.builtin.alloc_tensor(shape, "uint8", 0), "memory")
        builder.emit_func_output(relax.Tuple([made]))
    return builder.get()[name]
