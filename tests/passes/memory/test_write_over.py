"""Gradients are written over what their calls read last: the same bits, in fewer bytes."""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.script import tirx as T  # noqa: N812

import odtc
from odtc.backends.kernels.common import parsed
from odtc.core.artifact.memory_plan import Kind
from odtc.driver import splitting
from odtc.passes.ir.stored_once import is_stored_once
from odtc.passes.schedule.write_over import WriteOver, replaceable, written_over
from odtc.runtime_rpc.profile.build import operators_of
from tests.host import loaded

SIZE, WIDTH = 20, 8
STEPS = 2


def kernel(first: int, extent: int, shift: int = 0, *, again: bool = False):
    """Doubles `b` times `a`, in tiles of `WIDTH` that begin at `first` at the latest."""

    @parsed.prim_func(private=False, s_tir=True)
    def doubled(
        a: T.Buffer((SIZE + 1,), "float32"),
        b: T.Buffer((SIZE,), "float32"),
        result: T.Buffer((SIZE,), "float32"),
    ):
        for tile in T.serial(3):
            for i in T.serial(WIDTH):
                if T.min(tile * WIDTH, first) + i < extent:
                    result[T.min(tile * WIDTH, first) + i] = (
                        a[T.min(tile * WIDTH, first) + i + shift]
                        * b[T.min(tile * WIDTH, first) + i]
                        * T.float32(2)
                    )
        if again:
            result[0] = b[0]

    return doubled


@pytest.mark.parametrize(
    ("made", "is_once"),
    [
        (kernel(2 * WIDTH, SIZE), True),
        # The last tile reaches back.
        (kernel(SIZE - WIDTH, SIZE), False),
        (kernel(2 * WIDTH, SIZE, again=True), False),
    ],
    ids=["tiles with a rest", "the last tile reaches back", "an element once more"],
)
def test_an_operand_is_replaceable_where_each_element_is_stored_once(made, is_once: bool) -> None:
    assert is_stored_once(made, made.params[-1]) == is_once
    # `a` has another size.
    assert replaceable(made) == ([1] if is_once else [])


def test_what_is_read_at_another_place_is_not() -> None:
    @parsed.prim_func(private=False, s_tir=True)
    def turned(
        a: T.Buffer((SIZE,), "float32"),
        b: T.Buffer((SIZE,), "float32"),
        half: T.Buffer((SIZE,), "float16"),
        result: T.Buffer((SIZE,), "float32"),
    ):
        for i in T.serial(SIZE):
            result[i] = a[SIZE - 1 - i] + b[i] + T.cast(half[i], "float32")

    assert replaceable(turned) == [1]


def test_what_is_read_beside_the_store_is_not() -> None:
    @parsed.prim_func(private=False, s_tir=True)
    def guarded(
        a: T.Buffer((SIZE,), "float32"),
        b: T.Buffer((SIZE,), "float32"),
        result: T.Buffer((SIZE,), "float32"),
    ):
        kept = T.alloc_buffer((1,), "float32")
        kept[0] = a[3]
        for i in T.serial(SIZE):
            result[i] = a[i] + b[i] + kept[0]

    assert replaceable(guarded) == [1]


def test_a_kernel_in_place_gives_the_same() -> None:
    made = written_over(kernel(2 * WIDTH, SIZE), 1).with_attr("global_symbol", "main")
    built = loaded(tvm.IRModule({"main": made}))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(np.float32) for size in (SIZE + 1, SIZE))
    result = tvm.runtime.tensor(b)
    built["main"](tvm.runtime.tensor(a), result)
    np.testing.assert_array_equal(result.numpy(), a[:SIZE] * b * np.float32(2))


@pytest.fixture
def usual_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that keep their kernels within a budget: direct convolutions round otherwise."""
    monkeypatch.setattr(splitting, "_WORTH", math.inf)


def network(channels: int, size: int) -> onnx.ModelProto:
    """Two convolutions of large images with rectifiers, and a small layer."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": (channels, 3, 3, 3),
        "w2": (channels, channels, 3, 3),
        "w3": (channels, 4),
    }
    pads: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1"], ["c1"], **pads),
            helper.make_node("Relu", ["c1"], ["r1"]),
            helper.make_node("Conv", ["r1", "w2"], ["c2"], **pads),
            helper.make_node("Relu", ["c2"], ["r2"]),
            helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "w3"], ["y"]),
        ],
        "images",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [
            numpy_helper.from_array((rng.standard_normal(shape) / 6).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def floor_of(path: Path) -> int:
    """Bytes of the smallest arena, for two threads."""
    return odtc.plan(path, "host-cpu{threads=2}", micro_batches=1).points[-1].arena_bytes


def trained(path: Path, **options) -> tuple[list[float], dict[str, np.ndarray], odtc.Artifact]:
    """Losses and weights of some steps by two threads."""
    artifact = odtc.compile(path, "host-cpu{threads=2}", **options)
    trainer, rng = artifact.trainer(threads=2), np.random.default_rng(1)
    (x,) = artifact.manifest.inputs
    losses = [
        trainer.step(rng.standard_normal(x.shape).astype(np.float32), np.array([1, 3]), lr=0.1)
        for _ in range(STEPS)
    ]
    return losses, trainer.parameters(), artifact


@pytest.mark.usefixtures("usual_kernels")
@pytest.mark.parametrize(
    ("channels", "size"),
    [(64, 48), (20, 17)],
    ids=["tiles of rows with a rest", "lines with a rest"],
)
def test_no_bit_differs_within_fewer_bytes(
    channels: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(network(channels, size), tmp_path / "m.onnx")
    own = trained(tmp_path / "m.onnx")
    again = trained(
        tmp_path / "m.onnx", memory_budget=floor_of(tmp_path / "m.onnx"), micro_batches=1
    )
    monkeypatch.setattr(WriteOver, "run", lambda _, module: module)
    apart = trained(tmp_path / "m.onnx")
    for losses, weights, _ in (own, again):
        assert losses == apart[0]
        for name, value in apart[1].items():
            np.testing.assert_array_equal(weights[name], value, err_msg=name)
    assert own[2].manifest.sizes.train_step <= apart[2].manifest.sizes.train_step


@pytest.mark.usefixtures("usual_kernels")
def test_the_gradient_of_an_image_takes_no_bytes_beside_its_activation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels, size = 64, 48
    onnx.save(network(channels, size), tmp_path / "m.onnx")
    floor, image = floor_of(tmp_path / "m.onnx"), 2 * channels * size * size * 4
    monkeypatch.setattr(WriteOver, "run", lambda _, module: module)
    assert floor < floor_of(tmp_path / "m.onnx") - 0.8 * image


def test_a_plan_says_what_lies_in_a_tensor_and_when(tmp_path: Path) -> None:
    onnx.save(network(64, 48), tmp_path / "m.onnx")
    *_, artifact = trained(tmp_path / "m.onnx")
    tensors = artifact.memory.plan.tensors
    pairs = [
        (before, after)
        for before in tensors
        for after in tensors
        if after.kind is Kind.GRADIENT
        and (after.offset, after.first, after.nbytes)
        == (before.offset, before.last + 1, before.nbytes)
        and before.origins
        and before.origins[0].node == after.origins[-1].node
    ]
    assert pairs
    for before, after in pairs:
        assert before.kind in (Kind.SAVED, Kind.GRADIENT)
        assert after.origins[0].gradient
        assert before.spec.shape == after.spec.shape
    # No call that makes a gradient of a node is taken for an update.
    assert all(each.nodes for each in operators_of(artifact.memory.plan))


def test_a_step_fits_where_tensors_may_wait_if_it_fits_where_they_may_not(tmp_path: Path) -> None:
    """Overwritten tensors cannot be fetched, so steps of both kinds are candidates."""
    onnx.save(network(64, 48), tmp_path / "m.onnx")
    floor = floor_of(tmp_path / "m.onnx")
    own, waiting = (
        trained(tmp_path / "m.onnx", memory_budget=floor, micro_batches=1, offload=offload)
        for offload in (False, True)
    )
    assert waiting[0] == own[0]
    assert waiting[2].memory.arena_bytes <= floor
