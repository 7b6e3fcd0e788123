"""Mixed precision in an aarch64 process: products multiply float16 with the core's instructions."""

import gc
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from safetensors.numpy import load_file
from tvm import relax, rpc

import odtc
from benchmarks.models.digits import bn_model, digits_data, digits_model
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.backends.built import half_products
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.product.matmul import matmul
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.objects.elf import check_library
from odtc.backends.objects.library import export_library
from odtc.backends.targets import parse_target
from odtc.backends.write_products import WriteProducts
from tests.backends.kernels.half_bounds import assert_as_exact_as_half, convolution_references
from tests.backends.kernels.test_convolution_kernels import SAME, adjoint_module

pytestmark = pytest.mark.device

TARGET = parse_target("android-cpu{mcpu=cortex-a76}")
FAMILIES = ("convolution", "data_gradient", "weight_gradient")
LARGE = SAME | {"channels": 40, "filters": 35, "image": (12, 10)}
CASES = {
    "window": LARGE,
    "stride": LARGE | {"stride": (2, 2)},
    "points": LARGE | {"kernel": (1, 1), "pad": (0, 0, 0, 0)},
}
# Sizes of a product, and whether each operand is read transposed.
MATRICES = {
    "plain": ((70, 200, 90), (False, False)),
    "right": ((70, 200, 90), (False, True)),
    "left": ((70, 200, 90), (True, False)),
    "both": ((70, 200, 90), (True, True)),
    "few-rows": ((33, 200, 90), (False, True)),
}
# A scale at which nothing of these small nets overflows.
SCALE = odtc.LossScale(1024.0)


def convolution_kernels(case: dict) -> dict[str, tvm.tirx.PrimFunc]:
    module = relax.transform.LegalizeOps(convolution_rules())(adjoint_module(case))
    named = {variable.name_hint: function for variable, function in module.functions_items()}
    return {family: named[family] for family in FAMILIES}


def matrix_kernel(sizes: tuple[int, int, int], transposed: tuple[bool, bool]) -> tvm.tirx.PrimFunc:
    rows, depth, columns = sizes
    shapes = [(rows, depth), (depth, columns)]
    left, right = (
        relax.Var(name, relax.TensorType(s[::-1] if t else s, "float32"))
        for name, s, t in zip("ab", shapes, transposed, strict=True)
    )
    return matmul(left, right, *transposed)


def written(kernels: Mapping[str, tvm.tirx.PrimFunc]) -> tvm.IRModule:
    """The kernels with their loops, each of which multiplies float16."""
    module = tvm.IRModule({k: f.with_attr("global_symbol", k) for k, f in kernels.items()})
    machine = machine_of(TARGET.vector_bits, has_half=True)
    module = WriteProducts(machine, CPU_LOOPS).run(module)
    assert half_products(module) == len(kernels)
    public = {k: module[k].with_attr("global_symbol", k) for k in kernels}
    return tvm.IRModule(public)


def symbol(family: str, name: str) -> str:
    """Returns the symbol of a case's kernel."""
    return f"{family}_{name}".replace("-", "_")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tvm.IRModule]:
    """All kernels, as a file and as a module."""
    convolutions = {
        symbol(family, name): kernel
        for name, case in CASES.items()
        for family, kernel in convolution_kernels(case).items()
    }
    matrices = {symbol("matmul", name): matrix_kernel(*MATRICES[name]) for name in MATRICES}
    module = written(convolutions | matrices)
    path = tmp_path_factory.mktemp("half") / "half.so"
    export_library(tvm.compile(module, target=TARGET.to_tvm()), path, TARGET)
    check_library(path, TARGET)
    return path, module


@pytest.fixture(autouse=True)
def sessions_end() -> Iterator[None]:
    """The phone has one session at a time, which ends when its last tensor is collected."""
    yield
    gc.collect()


@pytest.fixture
def kernels(phone_with_tvm, library) -> Callable[..., np.ndarray]:
    """From a kernel's family and case, and its inputs, to what it gives on the phone."""
    path, module = library
    tracker = rpc.connect_tracker("127.0.0.1", phone_with_tvm.tracker_port)
    tracker._sock.settimeout(10)
    session = tracker.request(phone_with_tvm.key, max_retry=1, session_timeout=60)
    session.upload(str(path))
    loaded = session.load_module(path.name)

    def call(family: str, name: str, *inputs: np.ndarray) -> np.ndarray:
        shape = [int(size) for size in module[symbol(family, name)].params[-1].shape]
        result = tvm.runtime.tensor(np.full(shape, np.nan, np.float32), session.cpu(0))
        there = [tvm.runtime.tensor(each, session.cpu(0)) for each in inputs]
        loaded[symbol(family, name)](*there, result)
        return result.numpy()

    return call


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_as_exact_as_float16(kernels, name: str) -> None:
    rng = np.random.default_rng(0)
    x, w, dy = (
        rng.standard_normal([int(d) for d in p.ty.shape]).astype(np.float32)
        for p in adjoint_module(CASES[name])["main_adjoint"].params
    )
    found = [
        kernels(family, name, *operands)
        for family, operands in zip(FAMILIES, ((x, w), (dy, w), (x, dy)), strict=True)
    ]
    references = convolution_references(CASES[name], x, w, dy)
    for value, reference in zip(found, references, strict=True):
        assert_as_exact_as_half(value, *reference)


@pytest.mark.parametrize("name", MATRICES)
def test_matrix_products_are_as_exact_as_float16(kernels, name: str) -> None:
    (rows, depth, columns), transposed = MATRICES[name]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, columns)))
    laid = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), transposed, strict=True)]
    exact, squares = a.astype(np.float64) @ b, a.astype(np.float64) ** 2 @ b.astype(np.float64) ** 2
    assert_as_exact_as_half(kernels("matmul", name, *laid), exact, squares)


def test_what_exceeds_float16_is_infinite(kernels) -> None:
    (rows, depth, columns), _ = MATRICES["plain"]
    a, b = np.ones((rows, depth), np.float32), np.ones((depth, columns), np.float32)
    a[3] = 7e4
    found = kernels("matmul", "plain", a, b)
    assert np.isinf(found[3]).all()
    np.testing.assert_array_equal(np.delete(found, 3, 0), depth)


def state(trainer: odtc.Trainer, folder: Path) -> dict[str, np.ndarray]:
    """All that a trainer holds, by name."""
    trainer.save_checkpoint(folder / "state")
    return load_file(folder / "state")


def digits_trainers(
    folder: Path, phone, update: odtc.Update, make_model=digits_model
) -> tuple[odtc.Trainer, odtc.Trainer]:
    """In float32 on the host, and in mixed precision on the phone."""
    path = folder / "model.onnx"
    onnx.save(make_model(), path)
    plain = odtc.compile(path, batch=32, optimizer=update)
    mixed = odtc.compile(path, TARGET, batch=32, optimizer=update, precision="mixed")
    assert any("multiply float16" in note for note in mixed.manifest.notes)
    return plain.trainer(), mixed.trainer(device=phone.url)


@pytest.mark.slow
def test_a_small_convnet_trains_as_in_float32(phone, tmp_path: Path) -> None:
    update = odtc.Update(odtc.SGD(momentum=0.9), loss_scale=SCALE)
    on_host, on_phone = digits_trainers(tmp_path, phone, update)
    x, y, *_ = digits_data()
    found, expected = (
        [t.step(x[i : i + 32], y[i : i + 32], lr=0.002) for i in range(0, 8 * 32, 32)]
        for t in (on_phone, on_host)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-2)
    assert found[-1] < found[0] / 2


@pytest.mark.slow
def test_a_small_transformer_trains_as_in_float32(phone, tmp_path: Path) -> None:
    model, path = SMALL["gpt2"], tmp_path / "model.onnx"
    data = list(islice(batches(model), 2)) * 4
    export(make(model), data[0][0], path, "torchscript")
    update = odtc.Update(odtc.SGD(momentum=0.9), loss_scale=SCALE)
    losses = []
    for target, precision, device in (
        ("host-cpu", "float32", None),
        (TARGET, "mixed", phone.url),
    ):
        artifact = odtc.compile(
            path, target, precision=precision, loss=model.loss, optimizer=update
        )
        trainer = artifact.trainer(device=device)
        losses.append([trainer.step(x, y, lr=model.lr) for x, y in data])
    assert "multiply float16" in artifact.manifest.notes[-1]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
    assert losses[1][-1] < 0.9 * losses[1][0]


@pytest.mark.slow
def test_an_overflow_in_float16_is_left_out_and_halves_the_scale(phone, tmp_path: Path) -> None:
    """In float32 nothing overflows at this scale."""
    initial = 2.0**24
    update = odtc.Update(odtc.SGD(momentum=0.9), loss_scale=odtc.LossScale(initial))
    on_host, on_phone = digits_trainers(tmp_path, phone, update, bn_model)
    x, y, *_ = digits_data()
    before = on_phone.parameters()
    statistics = {name for name in before if name.endswith((".mean", ".var"))}
    assert np.isfinite(on_phone.step(x[:32], y[:32], lr=0.01))
    after = on_phone.parameters()
    assert all(np.array_equal(after[k], v) for k, v in before.items() if k not in statistics)
    assert state(on_phone, tmp_path)["update/loss-scale"] == initial / 2
    assert state(on_phone, tmp_path)["update/count"] == 0
    for _ in range(12):
        on_phone.step(x[:32], y[:32], lr=0.01)
    scale, count = (state(on_phone, tmp_path)[f"update/{k}"] for k in ("loss-scale", "count"))
    assert 0 < count < 13
    assert scale == initial / 2 ** (13 - count)
    assert all(np.isfinite(value).all() for value in on_phone.parameters().values())
    on_host.step(x[:32], y[:32], lr=0.01)
    assert state(on_host, tmp_path)["update/count"] == 1


@pytest.mark.slow
def test_digits_are_learned_as_well(phone, tmp_path: Path) -> None:
    update = odtc.Update(odtc.SGD(momentum=0.9), loss_scale="dynamic")
    x, y, x_test, y_test = digits_data()
    accuracy = []
    for trainer in digits_trainers(tmp_path, phone, update):
        rng = np.random.default_rng(0)
        for _ in range(6):
            order = rng.permutation(len(x))[: len(x) // 32 * 32].reshape(-1, 32)
            for part in order:
                trainer.step(x[part], y[part], lr=0.02)
        accuracy.append(float((trainer.evaluate(x_test).argmax(axis=1) == y_test).mean()))
    assert min(accuracy) >= 0.97
    assert abs(accuracy[0] - accuracy[1]) <= 0.01
