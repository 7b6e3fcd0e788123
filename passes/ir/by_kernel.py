"""Passes over single kernels: each core runs them over a part of the kernels."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import ir, tirx

from odtc.core.ir.outline_marks import OUTLINE
from odtc.core.process.side_by_side import cores, side_by_side
from odtc.passes.contract import Pass, Pipeline


@dataclass(frozen=True)
class ByKernel(Pass):
    """Runs passes one after the other over each kernel.

    Attributes:
        passes: which know nothing of any kernel but the one at hand, nor of functions of Relax.
    """

    name: ClassVar[str] = "by-kernel"
    passes: Pipeline = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}({','.join(map(str, self.passes))})"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites all kernels but outlines, of which nothing is left to rewrite."""
        functions = module.functions_items()
        kernels = [
            (each, made)
            for each, made in functions
            if isinstance(made, tirx.PrimFunc) and OUTLINE not in (made.attrs or {})
        ]
        kernels.sort(key=lambda item: item[0].name_hint)
        target = tvm.target.Target.current() or nullcontext()

        def rewritten(part: list[tuple[ir.GlobalVar, tirx.PrimFunc]]) -> tvm.IRModule:
            # What a target holds for is one thread.
            with target:
                rewritten = tvm.IRModule(dict(part))
                for each in self.passes:
                    rewritten = each.run(rewritten)
                return rewritten

        # Kernels of neighbouring names are alike, and are spread.
        parts = [kernels[number :: cores()] for number in range(cores())]
        result = module.clone()
        for made in side_by_side(rewritten, [part for part in parts if part]):
            for variable, kernel in made.functions_items():
                result.update_func(module.get_global_var(variable.name_hint), kernel)
        return result
