"""Variables without a tag get that of the ONNX tensor that they are computed for.

The importer names a variable by the tensor that it holds, and TVM names adjoints by those. What
rules and passes put between them has no such name: it belongs to whatever reads it first. So this
runs before any pass that may drop a variable with a name for one without.

A field of a kernel's results that only the backward pass reads belongs to the kernel: it was saved,
not computed for a gradient.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from odtc.core.ir.relax_calls import operator_of
from odtc.core.ir.tensor_tags import Tags, name_of, tags_of, united
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of

_RESHAPE = "relax.reshape"
Named = dict[relax.Var, Tags]


def tags_in(
    bindings: Sequence[relax.Binding], views: Collection[ir.GlobalVar] = frozenset()
) -> Named:
    """The tags of every variable that is bound, or read, in bindings of a function.

    Args:
        bindings: in the order in which they run.
        views: kernels that only give their argument another shape.
    """
    wanted: Named = {}
    fields: dict[relax.Var, dict[int, Tags]] = defaultdict(dict)
    for binding in reversed(bindings):
        own = _own(binding.var, wanted)
        wanted[binding.var] = own
        if not own and not fields[binding.var]:
            continue
        if isinstance(binding.value, relax.TupleGetItem):
            fields[binding.value.tuple_value][binding.value.index] = own
        wanted.update(_demands(binding.value, own, fields[binding.var], views))
    for binding in bindings:
        if isinstance(binding.value, relax.TupleGetItem) and not tags_of(binding.var.name):
            whole, found = wanted.get(binding.value.tuple_value, ()), wanted[binding.var]
            if not _is_forward(found) and _is_forward(whole):
                wanted[binding.var] = _work(whole)
    return wanted


def _is_forward(tags: Tags) -> bool:
    return bool(tags) and not tags[0].gradient


def _own(variable: relax.Var, wanted: Mapping[relax.Var, Tags]) -> Tags:
    """The tags in a variable's name, or those of its readers if it has none, or fewer."""
    own, other = tags_of(variable.name), wanted.get(variable, ())
    if not own or (other and other[0].exact and other[0].inexact == own[0]):
        return united((*other, *own))
    return own


def _demands(
    value: relax.Expr, own: Tags, fields: Mapping[int, Tags], views: Collection[ir.GlobalVar]
) -> Iterator[tuple[relax.Var, Tags]]:
    """The tags that a value's readers ask of each variable in it."""
    if isinstance(value, relax.Var):
        yield value, own
    elif isinstance(value, relax.Tuple):
        # What the first field is not named by: a normalisation, say, that absorbed what reads it.
        first, whole = {tag.inexact for tag in fields.get(0, ())}, _work(own)
        absorbed = () if first.issuperset(whole) else whole
        for place, field in enumerate(value.fields):
            if isinstance(field, relax.Var):
                yield field, _of_field(fields.get(place, ()) or whole, absorbed)
    elif own:
        passed = own if _is_view(value, views) else _work(own)
        yield from ((each, passed) for each in relax.analysis.free_vars(value))


def _of_field(tags: Tags, whole: Tags) -> Tags:
    """The tags of one of a kernel's results, with those of all if it is no gradient."""
    return united((*tags, *whole)) if _is_forward(tags) else tags


def _is_view(value: relax.Expr, views: Collection[ir.GlobalVar]) -> bool:
    """Whether a value is its only tensor in another shape."""
    if not isinstance(value, relax.Call):
        return False
    return operator_of(value) == _RESHAPE or (bool(value.args) and value.args[0] in views)


def _reshapes(kernel: ir.BaseFunc) -> bool:
    """Whether a kernel only gives its argument another shape."""
    if not isinstance(kernel, tirx.PrimFunc) or len(kernel.params) != 2:
        return False
    # TVM can tell it of kernels with blocks only.
    return isinstance(kernel.body, s_tir.SBlockRealize) and relax.analysis.has_reshape_pattern(
        kernel
    )


def _work(tags: Tags) -> Tags:
    """The tag of what is computed on the way."""
    return tuple(tag.inexact for tag in tags[:1])


def renamed(function: relax.Function, tags: Mapping[relax.Var, Tags]) -> relax.Function:
    """The function with the variables that it binds named by their tags."""
    new = {
        binding.var: type(binding.var)(name_of(tags[binding.var]), binding.var.ty)
        for binding in bindings_of(function)
        if tags.get(binding.var) and tags[binding.var] != tags_of(binding.var.name)
    }
    return tvm_ffi.structural_map(function, (ir.Var, lambda var: new.get(var, var)))


@dataclass(frozen=True)
class NameTensors(Pass):
    """Names the variables of a function after the ONNX tensors that they belong to.

    Attributes:
        function: name of the training step.
    """

    name: ClassVar[str] = "name-tensors"
    function: str = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the function; nothing but names changes."""
        function = module[self.function]
        named = module.clone()
        views = {gv for gv, kernel in module.functions_items() if _reshapes(kernel)}
        variable = module.get_global_var(self.function)
        named.update_func(variable, renamed(function, tags_in(bindings_of(function), views)))
        return named
