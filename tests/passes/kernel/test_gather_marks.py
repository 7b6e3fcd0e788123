"""Marks of a loop's iterations become one after the loop, on CPUs alone."""

import tvm
import tvm_ffi
from tvm import tirx

from odtc.backends.families import family_of
from odtc.backends.targets import parse_target
from odtc.core.ir.update_marks import MARKS_LOSS
from odtc.frontend.optimizers.groups import ParameterRule
from odtc.frontend.optimizers.table import parse_optimizer
from odtc.frontend.updates.update_kernels import update_kernel
from odtc.passes.contract import run_pipeline


def lowered(target: str, size: int) -> tirx.Stmt:
    """The body of an update kernel that is lowered for a target."""
    kernel = update_kernel(ParameterRule(parse_optimizer("adam")), (size,))
    assert MARKS_LOSS in kernel.attrs
    resolved = parse_target(target).resolved()
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with resolved.to_tvm():
        module = run_pipeline(family_of(resolved).blocks, module)
    return module["main"].body


def conditions_in_loops(body: tirx.Stmt) -> int:
    """Conditions in the innermost loops."""
    found: list[tirx.Stmt] = []

    def look(loop: tirx.For) -> None:
        inside: list[tirx.For] = []
        tvm_ffi.structural_walk(loop.body, (tirx.For, inside.append))
        if not inside:
            tvm_ffi.structural_walk(loop.body, (tirx.IfThenElse, found.append))

    tvm_ffi.structural_walk(body, (tirx.For, look))
    return len(found)


def test_a_cpu_has_none_in_its_loops() -> None:
    assert conditions_in_loops(lowered("host-cpu", 100)) == 0
    assert conditions_in_loops(lowered("host-cpu", 1 << 20)) == 0


def test_a_gpu_keeps_them() -> None:
    noted: list[tirx.Stmt] = []
    tvm_ffi.structural_walk(lowered("host-opencl", 1 << 20), (tirx.AllocBuffer, noted.append))
    assert not noted
