"""Outlines: kernels that were compiled before, in a module without a body to lower.

    fused kernel ─JSON, all that makes code of it─→ hash ─┬─ kept ─→ outline ────────────→ its code
                                                          └─ lower, compile ─→ keep ─────→

An outline has the parameters of a kernel and the attributes that it has once it is lowered, and
allocates as much: passes over calls see no difference, and the library is the same to the bit.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import tvm
from tvm import tirx

from odtc.backends.objects.kernel_store import outline_store
from odtc.backends.objects.kernel_text import text_of
from odtc.core.disk.package_files import is_as_loaded, libraries, sources
from odtc.core.ir.kernel_marks import IS_SCHEDULED
from odtc.core.ir.outline_marks import MADE_FROM, OUTLINE, REPLACEABLE, WORKSPACES, WRITTEN_OVER
from odtc.core.process.side_by_side import side_by_side
from odtc.passes.contract import Pass

# Marks that locate the code of a kernel, and do not influence it.
_MARKS = (MADE_FROM, OUTLINE, REPLACEABLE, WORKSPACES, WRITTEN_OVER)
_ADDRESS = " at 0x"


class NotKeptError(Exception):
    """The code of an outline is not kept any more, or was never made in this form."""


class Outlines(Enum):
    """How kernels whose code is kept are treated.

    Attributes:
        NEVER: they are lowered as all are, and nothing is noted: code is not all that is wanted.
        ANEW: they are lowered; what kernels are made from is noted.
        KEPT: they become outlines.
    """

    NEVER = 1
    ANEW = 2
    KEPT = 3


def recall_phase(wanted: Outlines, made_by: Sequence[object]) -> tuple[Pass, ...]:
    """The pass that recalls kernels, where what makes them is in files as this process has it.

    Where no store is used there is none: to hash each kernel takes a twentieth of a compile.

    Args:
        wanted: how those that are kept are treated.
        made_by: all that makes code of a kernel but this package and TVM; each says what it is by
            its `repr`.
    """
    said = [*map(repr, made_by)]
    # A `repr` with an address differs in each process, and identifies nothing.
    is_known = not any(_ADDRESS in each for each in said)
    if wanted is Outlines.NEVER or not is_known:
        return ()
    if not (outline_store().is_used and is_as_loaded()):
        return ()
    text = json.dumps([*said, libraries(), sources()])
    return (RecallKernels(hashlib.sha256(text.encode()).hexdigest(), wanted is Outlines.KEPT),)


@dataclass(frozen=True)
class RecallKernels(Pass):
    """Makes outlines of the kernels whose code is kept, and notes what the others are made from.

    Attributes:
        made_by: a hash of all that makes code of a kernel.
        outlines: whether those whose code is kept become outlines.
    """

    name: ClassVar[str] = "recall-kernels"
    made_by: str = field(repr=False)
    outlines: bool

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Marks all kernels."""
        functions = module.functions_items()
        kernels = {each: made for each, made in functions if isinstance(made, tirx.PrimFunc)}
        recalled, store = module.clone(), outline_store()
        hashes = side_by_side(self._made_from, list(kernels.values()))
        for (variable, kernel), made_from in zip(kernels.items(), hashes, strict=True):
            kept = store.get(made_from) if self.outlines else None
            made = _outline(kernel, kept) if kept else kernel.with_attr(MADE_FROM, made_from)
            recalled.update_func(variable, made)
        return recalled

    def _made_from(self, kernel: tirx.PrimFunc) -> str:
        return hashlib.sha256(f"{self.made_by} {text_of(kernel)}".encode()).hexdigest()


def _outline(kernel: tirx.PrimFunc, kept: bytes) -> tirx.PrimFunc:
    entry = json.loads(kept)
    attrs = tvm.ir.load_json(entry["attrs"])
    size = max(int(size) for size in attrs[WORKSPACES].values())
    body: tirx.Stmt = tirx.Evaluate(0)
    if size:
        # Local, for any size: small allocations in global memory would go on the stack.
        buffer = tirx.decl_buffer([size], "uint8", "workspace", scope="local")
        # A statement without effect would be dropped, and no sequence would be left.
        used = tirx.BufferStore(buffer, tirx.const(0, "uint8"), [0])
        body = tirx.SeqStmt([tirx.AllocBuffer(buffer), used])
    made = tirx.PrimFunc(kernel.params, body, kernel.ret_type, attrs=attrs)
    return made.with_attr(OUTLINE, entry["code"]).with_attr(IS_SCHEDULED, True)


def is_outline(kernel: tirx.PrimFunc) -> bool:
    """Whether a kernel has no body in the module."""
    return OUTLINE in (kernel.attrs or {})


def code_of(outline: tirx.PrimFunc) -> list[str]:
    """The keys of an outline's object files in the store, one for each CPU of the target.

    Raises:
        NotKeptError: it was never made in this form.
    """
    found = outline.attrs[OUTLINE].get(_form(outline))
    if found is None:
        raise NotKeptError
    return [str(key) for key in found]


def keep(kernel: tirx.PrimFunc, keys: Sequence[str]) -> None:
    """Stores the outline of a kernel, if the inputs of its code are known.

    Args:
        kernel: once it is lowered.
        keys: of its object files, one for each CPU of the target.
    """
    if MADE_FROM not in (kernel.attrs or {}):
        return
    made_from, store = str(kernel.attrs[MADE_FROM]), outline_store()
    before = store.get(made_from)
    code = json.loads(before)["code"] if before else {}
    attrs = tvm.ir.save_json(_without(kernel, [WRITTEN_OVER]).attrs)
    entry = {"attrs": attrs, "code": {**code, _form(kernel): [*keys]}}
    store.put(made_from, json.dumps(entry).encode())


def _form(kernel: tirx.PrimFunc) -> str:
    """The operand that the result lies over, if it does."""
    return str(kernel.attrs.get(WRITTEN_OVER, ""))


def unmarked(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel without the marks that locate its code."""
    return _without(kernel, _MARKS)


def _without(kernel: tirx.PrimFunc, names: Sequence[str]) -> tirx.PrimFunc:
    for name in names:
        if name in (kernel.attrs or {}):
            kernel = kernel.without_attr(name)
    return kernel
