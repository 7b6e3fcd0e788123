"""Files and objects that samples come from: each trains to the same bits as its arrays."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet
from safetensors.numpy import save_file

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError
from odtc.core.ir.place import Place
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.runtime_rpc.data.ahead import ahead
from odtc.runtime_rpc.data.mapped import LEAST_BYTES, is_mapped
from odtc.runtime_rpc.data.readers import read_data
from odtc.runtime_rpc.data.samples import samples_in
from odtc.runtime_rpc.data.source import Source, Stream
from odtc.runtime_rpc.data.wanted import Wanted
from tests.runtime_rpc.loop.models import SAMPLES, WIDTH, classed, step_of

X, Y = classed()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("sources"), "cross-entropy", optimizer="adam")


def trained(artifact: odtc.Artifact, data: Any, **options) -> odtc.Trainer:
    trainer = artifact.trainer(threads=1)
    trainer.fit(data, lr=0.01, steps=15, seed=2, **options)
    return trainer


def assert_same(one: odtc.Trainer, other: odtc.Trainer) -> None:
    wanted = other.parameters()
    for name, value in one.parameters().items():
        np.testing.assert_array_equal(value, wanted[name], name)


def as_npz(folder: Path) -> Path:
    np.savez(folder / "d.npz", x=X, y=Y)
    return folder / "d.npz"


def as_compressed_npz(folder: Path) -> Path:
    np.savez_compressed(folder / "d.npz", x=X, y=Y)
    return folder / "d.npz"


def as_folder(folder: Path) -> Path:
    np.save(folder / "x.npy", np.asfortranarray(X))
    np.save(folder / "label.npy", Y.astype(np.int64))
    return folder


def as_safetensors(folder: Path) -> Path:
    save_file({"x": X, "y": Y}, folder / "d.safetensors")
    return folder / "d.safetensors"


def table() -> pa.Table:
    columns = {f"f{n}": X[:, n] for n in range(WIDTH)}
    return pa.table({"label": Y} | columns)


def as_csv(folder: Path) -> Path:
    csv.write_csv(table(), folder / "d.csv")
    return folder / "d.csv"


def as_parquet(folder: Path) -> Path:
    parquet.write_table(table(), folder / "d.parquet")
    return folder / "d.parquet"


FILES = (as_npz, as_compressed_npz, as_folder, as_safetensors, as_csv, as_parquet)


@pytest.mark.parametrize("write", FILES)
def test_each_kind_of_file_trains_the_same(
    artifact: odtc.Artifact, tmp_path: Path, write: Callable[[Path], Path]
):
    path = write(tmp_path)
    assert_same(trained(artifact, path), trained(artifact, (X, Y)))
    source = read_data(path, artifact.manifest)
    x, y = source.take(np.array([5, 0]))
    np.testing.assert_array_equal(x["x"] if "x" in x else next(iter(x.values())), X[[5, 0]])
    np.testing.assert_array_equal(next(iter(y.values())), Y[[5, 0]])


def test_the_same_samples_have_the_same_digest(artifact: odtc.Artifact, tmp_path: Path):
    """A run goes on with another file of the same samples."""
    digests = set()
    for write in (as_npz, as_compressed_npz, as_folder, as_safetensors):
        folder = tmp_path / write.__name__
        folder.mkdir()
        digests.add(read_data(write(folder), artifact.manifest).digest())
    assert len(digests) == 1


class Pairs(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int):
        return torch.tensor(X[number]), int(Y[number])


ROWS = datasets.Dataset.from_dict({"x": X.tolist(), "labels": Y, "id": range(SAMPLES)})


@pytest.mark.parametrize(
    "data", [{"x": X, "y": Y}, Pairs(), ROWS], ids=["mapping", "torch", "rows"]
)
def test_each_kind_of_object_trains_the_same(artifact: odtc.Artifact, data: Any):
    assert_same(trained(artifact, data), trained(artifact, (X, Y)))


@pytest.mark.parametrize("own", [False, True])
def test_a_loader_that_shuffles_has_the_order_of_the_seed(artifact: odtc.Artifact, own: bool):
    def loader() -> torch.utils.data.DataLoader:
        generator = torch.Generator() if own else None
        return torch.utils.data.DataLoader(Pairs(), 5, shuffle=True, generator=generator)

    torch.manual_seed(1)
    first = trained(artifact, loader())
    torch.manual_seed(9)
    assert_same(first, trained(artifact, loader()))
    other = artifact.trainer(threads=1)
    other.fit(loader(), lr=0.01, steps=15, seed=3)
    name, value = next(iter(first.parameters().items()))
    assert not np.array_equal(value, other.parameters()[name])


def test_arrays_stay_in_their_file(artifact: odtc.Artifact, tmp_path: Path):
    samples = LEAST_BYTES // (4 * WIDTH) + 1
    x, y = classed(samples)
    for name in ("stored", "compressed"):
        save = np.savez if name == "stored" else np.savez_compressed
        save(tmp_path / f"{name}.npz", x=x, y=y)
        source = read_data(tmp_path / f"{name}.npz", artifact.manifest)
        (held,) = source.inputs.values()  # type: ignore[attr-defined]
        assert is_mapped(held) == (name == "stored")
        np.testing.assert_array_equal(held, x)
    cut = (tmp_path / "stored.npz").read_bytes()[:-9]
    (tmp_path / "cut.npz").write_bytes(cut)
    with pytest.raises(DataError, match=r"not an \.npz file|not a readable"):
        read_data(tmp_path / "cut.npz", artifact.manifest)


# The most that it has been begins anew: a process is born with that of the one that started it.
LARGE = """
import sys
from pathlib import Path
import odtc
from odtc.runtime_rpc.data.readers import read_data
artifact, data = sys.argv[1:]
trainer = odtc.load(artifact).trainer(threads=1)
def resident(key):
    (line,) = [each for each in open("/proc/self/status") if each.startswith(key)]
    return int(line.split()[1])
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
trainer.fit(data, lr=0.0, steps=300, validate_every=150, validation=data)
read_data(Path(data), trainer.manifest).digest()
print(resident("VmHWM") - before)
"""


def test_data_larger_than_what_it_may_take_trains(tmp_path: Path):
    """768 MB within 200 MB beside the step: shuffled, validated and hashed."""
    width, samples = 4096, 48 * 1024
    net = torch.nn.Sequential(torch.nn.Linear(width, 2))
    odtc.from_torch(net, (torch.zeros(8, width),), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", batch=8).save(tmp_path / "m.odtc")
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (samples, width))
    for start in range(0, samples, 1024):
        x[start : start + 1024] = start % 7
    x.flush()
    np.save(tmp_path / "y.npy", np.arange(samples, dtype=np.int32) % 2)
    data = tmp_path / "data"
    data.mkdir()
    for name in ("x.npy", "y.npy"):
        (tmp_path / name).rename(data / name)
    argv = [sys.executable, "-c", LARGE, str(tmp_path / "m.odtc"), str(data)]
    found = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300)
    assert int(found.stdout.splitlines()[-1]) < 200 * 1024


def test_a_dataset_of_several_labels_is_refused(artifact: odtc.Artifact):
    rows = ROWS.add_column("target", [0] * SAMPLES)  # type: ignore[call-arg]
    with pytest.raises(DataError, match="the label of a sample may be labels or target"):
        trained(artifact, rows)


def test_the_command_line_reads_them_all(tmp_path: Path, artifact: odtc.Artifact, capsys):
    artifact.save(tmp_path / "a.odtc")
    lines = set()
    for write in FILES:
        folder = tmp_path / write.__name__
        folder.mkdir()
        path = str(write(folder))
        argv = ["train", str(tmp_path / "a.odtc"), "--data", path, "--validation", path]
        assert main([*argv, "--lr", "0.01", "--threads", "1"]) == 0
        lines.add(capsys.readouterr().err.partition("epoch 1, ")[2].splitlines()[0])
    assert len(lines) == 1


def test_samples_come_ahead_in_their_order_with_their_errors():
    def work(number: int) -> int:
        if number == 9:
            raise DataError("the tenth", where="", hint="")
        return number

    found = []
    with pytest.raises(DataError, match="the tenth"):
        found.extend(ahead(work, range(20)))
    assert found == [*range(9)]


class Counted(Source):
    """Numbers as samples."""

    count, where = 7, "counted"

    def take(self, numbers: np.ndarray):
        return {"x": numbers}, {}

    def digest(self) -> str:
        return ""


def test_a_stream_has_each_sample_of_each_epoch_once():
    stream = Stream(Counted(), 3, seed=5)
    taken = np.concatenate([x["x"] for _, (x, _) in zip(range(7), stream.batches(0), strict=False)])
    for epoch in range(3):
        assert sorted(taken[7 * epoch : 7 * epoch + 7]) == [*range(7)]
    assert [step for step in range(1, 8) if stream.epoch_ends(step)] == [2, 4, 7]
    parts = [x["x"] for step in (0, 2, 4) for x, _ in stream.segment(step, 9)]
    np.testing.assert_array_equal(np.concatenate(parts), taken)


def test_bytes_that_go_into_floats_are_said() -> None:
    images = Argument(Role.INPUT, TensorSpec("x", (4, 3, 8, 8)), place=Place(0))
    columns = Argument(Role.INPUT, TensorSpec("x", (4, 9)), place=Place(0))
    label = Argument(Role.LABEL, TensorSpec("y", (4,), "int64"), place=Place(0))
    y = np.zeros(4, np.int64)

    def notes(item: Argument, dtype: str) -> tuple[str, ...]:
        arrays = {"x": np.ones(item.spec.shape, dtype), "y": y}
        return samples_in(arrays, [*arrays], Wanted([item], [label]), "d.npz").notes

    (said,) = notes(images, "uint8")
    assert said.startswith("d.npz: x holds bytes, 0 to 255, which are fed as they are: where")
    assert not notes(images, "float32")
    assert not notes(columns, "uint8")
