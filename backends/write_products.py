"""Gives every product its loops, once it is known what is fused after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.cost.workload import workload_of
from odtc.backends.decisions import Choice, Decisions, MachineModel, RecordLookup, no_records
from odtc.backends.kernels.product.fused import FusedProduct, Product, fused_product
from odtc.backends.kernels.winograd.cut import DIRECT_FORM, FORM, WINOGRAD_FORM
from odtc.core.ir.kernel_marks import EXACT, IS_SCHEDULED
from odtc.core.ir.outline_marks import MADE_FROM
from odtc.core.ir.product_marks import TUNED, WINOGRAD, WORKLOAD
from odtc.passes.contract import Pass

# From a family of products to what emits its loops, for a machine.
Loops = Mapping[str, Callable[[Product, Any], None]]


@dataclass(frozen=True)
class WriteProducts(Pass):
    """Writes the loops of the kernels that are a product and elementwise operators after it.

    Attributes:
        machine: the CPU or GPU.
        loops: of each family.
        records: what is known of kernels that were measured.
        direct: whether no convolution is in Winograd's form, which takes workspaces.
    """

    name: ClassVar[str] = "write-products"
    machine: MachineModel = field(repr=False)
    loops: Loops = field(repr=False)
    records: RecordLookup = field(default=no_records, repr=False)
    direct: bool = False

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the kernels of a module that are marked as products."""
        written = module.clone()
        for variable, function in module.functions_items():
            product = fused_product(function) if isinstance(function, tirx.PrimFunc) else None
            if product:
                written.update_func(variable, _marked_as(function, self._written(product)))
        return written

    def _written(self, product: FusedProduct) -> tirx.PrimFunc:
        """The kernel as it is usually, or a direct one in its place."""
        kernel = self._usual(product)
        if self.direct and WINOGRAD in kernel.attrs:
            # Without its workload, as that was measured in the other form.
            return self._telling(product, {FORM: DIRECT_FORM})[0]
        return kernel

    def _usual(self, product: FusedProduct) -> tirx.PrimFunc:
        """The kernel as its record tells, or as the machine's model does."""
        if self.records is no_records:
            return self._telling(product, {})[0]
        workload = workload_of(product, self.machine)
        told = self.records(workload)
        if told:
            kernel, decisions = self._telling(product, told.choice)
            # A record that tells what no kernel can be is of another one.
            if not decisions.unknown:
                return kernel.with_attr(TUNED, told.source).with_attr(WORKLOAD, workload)
        return self._telling(product, {})[0].with_attr(WORKLOAD, workload)

    def _telling(self, product: FusedProduct, choice: Choice) -> tuple[tirx.PrimFunc, Decisions]:
        """The kernel, and what was decided for it."""
        machine, decisions = self.machine.telling(choice)
        kernel = write_product(product, machine, self.loops)
        is_winograd = FORM in decisions.made and decisions.made[FORM].taken == WINOGRAD_FORM
        if is_winograd:
            return kernel.with_attr(WINOGRAD, True), decisions
        return kernel.with_attr(EXACT, True) if _is_exact(kernel) else kernel, decisions


def _marked_as(function: tirx.PrimFunc, kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel that is written for another one, made from the same."""
    made_from = (function.attrs or {}).get(MADE_FROM)
    return kernel if made_from is None else kernel.with_attr(MADE_FROM, made_from)


def _is_exact(kernel: tirx.PrimFunc) -> bool:
    """Whether what it allocates is used: rows of float16 are copied with space after them."""
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(kernel.body, (s_tir.SBlock, blocks.append))
    buffers = [buffer for block in blocks for buffer in block.alloc_buffers]
    return all(str(buffer.dtype) != "float16" for buffer in buffers)


def write_product(product: FusedProduct, machine: Any, loops: Loops) -> tirx.PrimFunc:
    """The kernel of a product."""
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name(product.family.replace("-", "_"))
            T.func_attr({IS_SCHEDULED: True, "tirx.noalias": True})
            arguments = [
                T.arg(f"arg{i}", T.buffer([int(size) for size in p.shape], str(p.dtype)))
                for i, p in enumerate(product.parameters)
            ]
            loops[product.family](product.product(arguments), machine)
        return builder.get()
