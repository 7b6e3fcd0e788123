"""Kernels' workspaces in the arena: as many bytes as they say, and none that two use at once."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import ir, relax, tirx
from tvm.script import tirx as T  # noqa: N812
from tvm.sym import Analyzer

from odtc.backends.built import storage_bytes
from odtc.backends.families import family_of
from odtc.backends.kernels.common import parsed
from odtc.backends.lowering import vm_phase
from odtc.backends.pipeline.phases import plan_phase
from odtc.backends.targets import parse_target
from odtc.passes.contract import run_pipeline
from odtc.passes.memory.workspaces import LiftWorkspaces

WIDTH = 700
# On a cache line.
ROW = 2816


def reversed_rows(rows: int, kind: str = "parallel") -> tirx.PrimFunc:
    """Rows of `x` backwards, twice over, through a workspace; an odd one through another."""
    loop = getattr(T, kind)

    @parsed.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((rows, WIDTH), "float32"), y: T.Buffer((rows, WIDTH), "float32")):
        for row in loop(rows):
            with T.sblock("row"):
                at = T.axis.opaque(rows, row)
                T.reads(x[at, 0:WIDTH])
                T.writes(y[at, 0:WIDTH])
                first = T.sblock_alloc_buffer((WIDTH,), "float32")
                for i in range(WIDTH):
                    first[i] = x[at, WIDTH - 1 - i]
                if at % 2 == 1:
                    for _ in range(2):
                        with T.sblock("odd"):
                            T.reads(first[0:WIDTH])
                            T.writes(first[0:WIDTH])
                            second = T.sblock_alloc_buffer((WIDTH,), "float32")
                            for i in range(WIDTH):
                                second[i] = first[i] * T.float32(2)
                            for i in range(WIDTH):
                                first[i] = second[i]
                for i in range(WIDTH):
                    y[at, i] = first[i]

    return kernel.with_attr("tirx.noalias", True)


def called_thrice(kernel: tirx.PrimFunc, rows: int) -> tvm.IRModule:
    """The kernel on its own results."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, WIDTH), "float32"))
    function = builder.add_func(kernel, "reversed_rows")
    with builder.function("main", [x]):
        once = builder.emit(relax.call_tir(function, [x], x.ty))
        twice = builder.emit(relax.call_tir(function, [once], x.ty))
        builder.emit_func_output(builder.emit(relax.call_tir(function, [twice], x.ty)))
    return builder.finalize()


def planned(rows: int, slots: int, kind: str = "parallel") -> tvm.IRModule:
    kernel = reversed_rows(rows, kind)
    family = family_of(parse_target(f"host-cpu{{threads={slots}}}").resolved())
    return run_pipeline(plan_phase(None, family), called_thrice(kernel, rows))


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(2, 40), slots=st.integers(1, 9))
def test_every_slot_has_its_own(rows: int, slots: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)
    module = planned(rows, slots)
    # Two results in the arena besides that of the function, one workspace at a time.
    workspace = min(rows, slots) * 2 * ROW
    row_bytes = -(-rows * WIDTH * 4 // 64) * 64
    assert storage_bytes(module)["main"] == 2 * row_bytes + workspace + rows * WIDTH * 4
    executable = tvm.compile(module, "llvm", relax_pipeline=vm_phase())
    machine = relax.VirtualMachine(executable, tvm.cpu())
    expected = x[:, ::-1].copy()
    expected[1::2] *= 4**3
    for _ in range(3):
        np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), expected)


def test_one_workspace_serves_a_serial_loop() -> None:
    (workspace,) = {
        int(binding.value.args[2].values[0])
        for block in planned(5, 4, "serial")["main"].body.blocks
        for binding in block.bindings
        if binding.var.name == "workspace"
    }
    assert workspace == 2 * ROW


@pytest.mark.parametrize("slots", [1, 3])
def test_nothing_is_left_that_asks_the_runtime(slots: int) -> None:
    executable = tvm.compile(planned(7, slots), "llvm", relax_pipeline=vm_phase())
    libraries = [m for m in executable.mod.imports if "llvm" in m.kind] or [executable.mod]
    for library in libraries:
        assert "AllocWorkspace" not in library.inspect_source("ll")


def places_of_slots(module: tvm.IRModule) -> list[ir.Expr]:
    """Where the workspaces of a slot begin, in bytes."""
    (lifted,) = (each for each in module.functions.values() if isinstance(each, tirx.PrimFunc))
    loads = []
    tvm_ffi.structural_walk(lifted.body, (ir.TensorLoad, loads.append))
    places = [each.indices[0] for each in loads if each.source.dtype == "uint8"]
    return [place for place in places if not isinstance(place, tirx.IntImm)]


def test_places_are_counted_in_64_bits() -> None:
    places = places_of_slots(planned(4, 4))
    assert len(places) == 2
    assert all(place.ty.dtype == "int64" for place in places)


def test_no_two_slots_share_a_place() -> None:
    """Values show that threads overwrite each other's slots only where these run at once."""
    places = places_of_slots(planned(4, 4))

    def at(place: ir.Expr, slot: int) -> int:
        number = tirx.const(slot, "int32")
        return int(Analyzer().simplify(tvm_ffi.structural_map(place, (ir.Var, lambda _: number))))

    starts = [at(place, slot) for place in places for slot in range(4)]
    assert sorted(starts) == [number * ROW for number in range(8)]


def test_an_allocation_that_is_not_found_is_refused() -> None:
    buffer = tirx.decl_buffer([WIDTH], "float32", "hidden")
    body = tirx.SeqStmt(
        [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, tirx.const(1, "float32"), [0])]
    )
    condition = tirx.const(value=True, dtype="bool")
    kernel = tirx.PrimFunc([], tirx.While(condition, body)).with_attr("global_symbol", "kernel")
    module = tvm.IRModule({"kernel": kernel})
    with pytest.raises(ValueError, match="hidden is allocated where no workspace is looked for"):
        LiftWorkspaces(2).run(module)
