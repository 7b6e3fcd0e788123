"""The memory plan: lifespans of a small step, a replay of real ones, and what is allocated.

The replay shares nothing with the pass: it runs through the planned function and keeps a map of
which tensor owns each byte of the arena.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

import odtc
from benchmarks.models.digits import digits_model
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.backends import lowering
from odtc.backends.families import family_of
from odtc.backends.targets import parse_target
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import run_pipeline
from odtc.passes.memory.arena import PlanMemory
from odtc.passes.memory.lifespans import lifespans_of
from odtc.runtime_rpc.pages import Pages
from tests.fast import fast_if

MODELS = ["digits", "char_cnn_lstm", "bert_base", "mobilenet_v2"]


def step_of_views() -> relax.Function:
    """`a` lives on in a view and a tuple, `b` in nothing, `c` is returned."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    kernel = relax.ExternFunc("kernel")
    with builder.function("main", [x]):

        def allocate(dtype: str) -> relax.Var:
            return builder.emit(op.builtin.alloc_tensor(relax.ShapeExpr([4, 4]), dtype, 0))

        def call(*arguments: relax.Expr) -> None:
            builder.emit(relax.Call(kernel, arguments, ty_args=[relax.TupleType([])]))

        a = allocate("float32")  # 0
        call(x, a)  # 1
        flat = builder.emit(op.reshape(a, [16]))  # 2
        pair = builder.emit(relax.Tuple([flat, x]))  # 3
        b = allocate("float16")  # 4
        call(x, b)  # 5
        c = allocate("float32")  # 6
        call(builder.emit(relax.TupleGetItem(pair, 0)), c)  # 7, 8
        call(builder.emit(relax.TupleGetItem(pair, 1)), c)  # 9, 10
        builder.emit_func_output(op.reshape(c, [16]))
    return builder.get()["main"]


def test_views_and_tuples_keep_a_tensor_alive() -> None:
    found = lifespans_of(step_of_views())
    assert dict(found.tensors) == {0: (0, 8), 4: (4, 5)}
    assert dict(found.bytes) == {0: 64, 4: 32}


def test_what_is_returned_has_storage_of_its_own() -> None:
    module = PlanMemory().run(tvm.IRModule({"main": step_of_views()}))
    text = module["main"].script()
    assert text.count("alloc_storage(R.shape([128])") == 1
    assert text.count("memory.alloc_tensor") == 2
    assert text.count("builtin.alloc_tensor") == 1


def write_model(name: str, path: Path) -> str:
    """Writes a model; returns its loss."""
    if name == "digits":
        onnx.save(digits_model(), path)
        return "cross-entropy"
    entry = SMALL[name]
    module = make(entry)
    export(module, next(batches(entry))[0], path)
    return entry.loss


@pytest.mark.parametrize("name", fast_if(lambda name: name != "bert_base", MODELS))
def test_no_tensor_is_written_over_while_it_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[tvm.IRModule] = []

    def kept(passes, module, **options):
        planned.append(run_pipeline(passes, module, **options))
        return planned[-1]

    monkeypatch.setattr(lowering, "run_pipeline", kept)
    loss = write_model(name, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", batch=4, loss=loss, dropout=False)
    functions = {v.name_hint: f for v, f in planned[-1].functions_items()}
    steps = {n: f for n, f in functions.items() if isinstance(f, relax.Function)}
    heights = {n: replay(step) for n, step in steps.items()}
    # The loss is the one tensor that is no part of the arena.
    assert artifact.manifest.sizes.train_step == heights["train_step"] + 4


def replay(step: relax.Function) -> int:
    """Runs through a planned function; returns the bytes of its arena.

    A training step is given it, after its arguments; others allocate it.
    """
    given = [each for each in step.params if isinstance(each.ty, relax.TupleType)]
    owner = np.zeros(sum(int(each.ty.fields[0].shape[0]) for each in given), np.int64)
    places: dict[relax.Var, tuple[int, int]] = {}
    views: dict[relax.Var, relax.Var] = {}
    written: set[relax.Var] = set()

    def tensors(expression: relax.Expr) -> list[relax.Var]:
        return [v for v in map(source, relax.analysis.free_vars(expression)) if v in places]

    def source(variable: relax.Var) -> relax.Var:
        return source(views[variable]) if variable in views else variable

    bindings = [binding for block in step.body.blocks for binding in block.bindings]
    for number, binding in enumerate(bindings, 1):
        value = binding.value
        name = operator_of(value)
        if name == "relax.memory.alloc_storage":
            assert not len(owner)
            owner = np.zeros(int(value.args[0].values[0]), np.int64)
        elif name == "relax.memory.alloc_tensor" or is_view(value):
            begin, shape, dtype = placed(value)
            size = math.prod(shape) * np.dtype(dtype).itemsize
            assert begin % 64 == 0
            assert begin + size <= len(owner)
            places[binding.var] = (begin, begin + size)
            owner[begin : begin + size] = number
            written.add(binding.var)
        elif isinstance(value, relax.Var) or name == "relax.reshape":
            viewed = value if isinstance(value, relax.Var) else value.args[0]
            if isinstance(viewed, relax.Var):
                views[binding.var] = viewed
        else:
            for tensor in tensors(value):
                begin, end = places[tensor]
                # Allocations of one call may follow each other, so a tensor owns its bytes from
                # where it is allocated to its last use.
                (own,) = np.unique(owner[begin:end])
                assert bindings[own - 1].var.same_as(tensor), (tensor, binding)
    return len(owner)


def is_view(value: relax.Expr) -> bool:
    """Whether it is a tensor of an arena that a step is given."""
    return (
        isinstance(value, relax.Call)
        and isinstance(value.op, relax.ExternFunc)
        and value.op.global_symbol == "runtime.TVMTensorCreateView"
    )


def placed(value: relax.Call) -> tuple[int, list[int], str]:
    """Where a tensor of an arena begins, its shape and its dtype."""
    if is_view(value):
        _, shape, dtype, begin = value.args
    else:
        _, begin, shape, dtype, *_ = value.args
    return int(begin.value), [int(size) for size in shape.values], str(dtype.value)


def test_the_runtime_allocates_what_was_planned(tmp_path: Path) -> None:
    """The arena once, and the loss of each step."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", batch=8)
    arenas: list[int] = []
    allocated: list[int] = []

    class Counting(VirtualMachineHere):
        def load(self, library: Path) -> relax.VirtualMachine:
            machine = super().load(library)

            def observe(_, name: str, before: bool, __, *arguments) -> None:
                if before and name == "vm.builtin.alloc_storage":
                    allocated.append(math.prod(int(size) for size in arguments[1]))

            machine.set_instrument(observe)
            return machine

        def pages(self) -> Callable[[int], Any]:
            held = Pages()

            def noted(nbytes: int) -> Any:
                arenas.append(nbytes)
                return held(nbytes)

            return noted

    trainer = artifact.trainer(Counting())
    x = np.zeros((8, 1, 8, 8), np.float32)
    for step in range(1, 4):
        trainer.step(x, np.zeros(8, int), 0.01)
        assert arenas == [artifact.memory.arena_bytes]
        assert sum(arenas) + sum(allocated) / step == artifact.manifest.sizes.train_step


@pytest.mark.parametrize("target", ["host-cpu", "android-cpu"])
def test_kernels_allocate_nothing(target: str, tmp_path: Path) -> None:
    """A library whose kernels ask the runtime for workspaces has a slot for that function."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", target, batch=8).save(tmp_path / "m.odtc")
    with ZipFile(tmp_path / "m.odtc") as archive:
        library = archive.read("step.so")
    assert b"TVMBackendParallelLaunch" in library
    assert b"AllocWorkspace" not in library


def test_kernels_take_tensors_that_begin_anywhere() -> None:
    """Of every width: the number of elements that an offset is a multiple of differs."""
    for dtype in ("float32", "float16", "int8", "bool", "int64"):
        x = relax.Var("x", relax.TensorType((2, 64), dtype))
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit_te(lambda t: tvm.topi.reshape(t, (64, 2)), x))
        module = run_pipeline(
            lowering.plan_phase(None, family_of(parse_target("host-cpu{threads=2}").resolved())),
            builder.finalize(),
        )
        kernels = [f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc)]
        width = np.dtype(dtype).itemsize
        assert [p.offset_factor for k in kernels for p in k.params] == [64 // width] * 2
