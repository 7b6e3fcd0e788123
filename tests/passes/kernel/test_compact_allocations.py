"""Allocations as large as what is used of them: kernels that say so are right."""

from pathlib import Path

import onnx
import pytest
import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import transform as S  # noqa: N812

import odtc
from benchmarks.models.digits import digits_model
from benchmarks.models.zoo import zoo_model
from odtc.core.ir.kernel_marks import EXACT
from odtc.passes.contract import PassError
from odtc.passes.ir import by_kernel
from odtc.passes.kernel.compact_allocations import CompactAllocations


class SeenError(Exception):
    """The rest of the compile is not needed."""


MODELS = {
    "digits": (digits_model, "host-cpu"),
    "shufflenet": (lambda: zoo_model("shufflenet"), "host-cpu"),
    "digits on a phone": (digits_model, "android-cpu{mcpu=cortex-a76}"),
}


def allocations(kernel: tirx.PrimFunc) -> list[tuple[str, ...]]:
    """Shapes of what a kernel allocates."""
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(kernel.body, (s_tir.SBlock, blocks.append))
    return [tuple(map(str, each.shape)) for block in blocks for each in block.alloc_buffers]


@pytest.mark.parametrize("name", MODELS)
def test_what_is_called_exact_is_as_small_as_it_can_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, target = MODELS[name]
    onnx.save(model(), tmp_path / "m.onnx")
    seen: list[str] = []
    run = CompactAllocations.run

    def checked(self: CompactAllocations, module: tvm.IRModule) -> tvm.IRModule:
        all_of_them = S.CompactBufferAllocation()(module)
        compacted = run(self, module)
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc):
                found, least = compacted[variable], all_of_them[variable]
                assert allocations(found) == allocations(least), variable.name_hint
                seen.extend([variable.name_hint] if EXACT in kernel.attrs else [])
        raise SeenError

    monkeypatch.setattr(CompactAllocations, "run", checked)
    monkeypatch.setattr(by_kernel, "cores", lambda: 1)
    with pytest.raises(PassError, match="by-kernel"):
        odtc.compile(tmp_path / "m.onnx", target, batch=1)
    assert seen
