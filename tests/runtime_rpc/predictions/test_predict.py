"""`Trainer.predict` takes what `fit` takes, with labels or without, as `evaluate` would have it."""

import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
)

import odtc
from odtc.core.errors import DataError, UsageError
from tests.runtime_rpc.loop.models import BATCH, SAMPLES, classed, step_of

X, Y = classed()
FRAME = pandas.DataFrame(X, columns=[*"abcdef"])
TABLE = FRAME.assign(label=Y)
WITH_LABELS = TensorDataset(torch.tensor(X), torch.tensor(Y))
ALONE = TensorDataset(torch.tensor(X))


class Stream(IterableDataset):
    def __iter__(self):
        return iter([{"x": x, "label": y} for x, y in zip(X, Y, strict=True)])


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("predict"), "cross-entropy")


@pytest.fixture
def trainer(artifact: odtc.Artifact) -> odtc.Trainer:
    return artifact.trainer(threads=1)


def written(path: Path, write: Callable[[Path], Any]) -> Path:
    write(path)
    return path


DATA: dict[str, Callable[[Path], Any]] = {
    "npz": lambda at: written(at / "a.npz", lambda p: np.savez(p, x=X, y=Y)),
    "npz without labels": lambda at: str(written(at / "a.npz", lambda p: np.savez(p, input=X))),
    "folder of npy": lambda at: written(at / "x.npy", lambda p: np.save(p, X)).parent,
    "csv": lambda at: written(at / "a.csv", lambda p: TABLE.to_csv(p, index=False)),
    "csv without labels": lambda at: written(at / "a.csv", lambda p: FRAME.to_csv(p, index=False)),
    "labels that are no numbers": lambda at: written(
        at / "a.csv", lambda p: FRAME.assign(target="?").to_csv(p, index=False)
    ),
    "parquet": lambda at: written(at / "a.parquet", TABLE.to_parquet),
    "array": lambda _: X,
    "lists": lambda _: X.tolist(),
    "tensor": lambda _: torch.tensor(X),
    "pair": lambda _: (X, Y),
    "by name": lambda _: {"input": X},
    "by name with labels": lambda _: {"x": X, "y": Y},
    "frame": lambda _: FRAME,
    "frame with labels": lambda _: TABLE,
    "dataset": lambda _: WITH_LABELS,
    "dataset without labels": lambda _: ALONE,
    "loader": lambda _: DataLoader(WITH_LABELS, 5),
    "loader without labels": lambda _: DataLoader(ALONE, 7),
    "list of pairs": lambda _: [(X[:5], Y[:5]), (X[5:], Y[5:])],
    "list of mappings": lambda _: [{"x": X[:3]}, {"input": X[3:], "labels": Y[3:]}],
    "generator": lambda _: (X[n : n + 4] for n in range(0, SAMPLES, 4)),
    "stream": lambda _: Stream(),
    "table of Arrow": lambda _: pyarrow.Table.from_pandas(TABLE),
    "batches of Arrow": lambda _: pyarrow.Table.from_pandas(TABLE).to_reader(max_chunksize=9),
    "list of frames": lambda _: [FRAME[:9], TABLE[9:]],
}


@pytest.mark.parametrize("form", DATA)
def test_each_kind_of_data_is_what_evaluate_makes_of_its_arrays(
    trainer: odtc.Trainer, form: str, tmp_path: Path
):
    data = DATA[form](tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = trainer.predict(data)
    np.testing.assert_array_equal(found, trainer.evaluate(X))


def test_what_is_beside_inputs_and_labels_is_said(trainer: odtc.Trainer, tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=X, y=Y, weight=Y)
    with pytest.warns(UserWarning, match="not read, as they are not inputs: weight"):
        trainer.predict(tmp_path / "a.npz")
    with pytest.warns(UserWarning, match="the loader shuffles: .* give shuffle=False"):
        trainer.predict(DataLoader(ALONE, 5, shuffle=True))


class Even(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(0, SAMPLES, 2))

    def __len__(self) -> int:
        return SAMPLES // 2 + SAMPLES % 2


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (
            DataLoader(ALONE, 8, drop_last=True),
            f"{SAMPLES % 8} of {SAMPLES} samples of the loader's dataset have no prediction: it "
            "has drop_last=True",
        ),
        (
            DataLoader(ALONE, batch_sampler=BatchSampler(SequentialSampler(ALONE), 9, True)),
            f"{SAMPLES % 9} of {SAMPLES} samples",
        ),
        (
            DataLoader(ALONE, 7, sampler=Even()),
            f"{SAMPLES // 2} of {SAMPLES} samples of the loader's dataset .* leaves them out",
        ),
        (DataLoader(ALONE, 7, sampler=Even()), "the loader goes by a Even: predictions are in"),
        (
            DataLoader(ALONE, batch_sampler=BatchSampler(RandomSampler(ALONE), 9, False)),
            "the loader shuffles",
        ),
        (
            DataLoader(Stream(), 8, drop_last=True),
            "samples that fill no batch have no prediction",
        ),
    ],
)
def test_samples_that_a_loader_leaves_out_and_its_order_are_said(
    trainer: odtc.Trainer, loader: DataLoader, said: str
):
    with pytest.warns(UserWarning, match=said):
        trainer.predict(loader)


def test_columns_are_those_that_were_trained_by_their_names(
    artifact: odtc.Artifact, tmp_path: Path
):
    trainer = artifact.trainer(threads=1)
    TABLE[:48].to_csv(tmp_path / "train.csv", index=False)
    trainer.fit(tmp_path / "train.csv", lr=0.1, callbacks=[odtc.Checkpoint(tmp_path / "c")])
    FRAME[[*"fbcdea"]].assign(id=range(SAMPLES)).to_csv(tmp_path / "new.csv", index=False)
    later = artifact.trainer(threads=1)
    later.load_checkpoint(tmp_path / "c")
    for each in (trainer, later):
        with pytest.warns(UserWarning, match="not inputs: id"):
            found = each.predict(tmp_path / "new.csv")
        np.testing.assert_array_equal(found, trainer.evaluate(X))
    FRAME.rename(columns={"c": "C"}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError, match="the training had the columns c, which are not there"):
        later.predict(tmp_path / "other.csv")


def test_the_columns_that_a_step_normalises_are_taken_by_their_names(tmp_path: Path):
    TABLE.to_csv(tmp_path / "train.csv", index=False)
    trainer = step_of(tmp_path, "cross-entropy", normalize=tmp_path / "train.csv").trainer()
    FRAME[[*"fbcdea"]].to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(trainer.predict(tmp_path / "new.csv"), trainer.evaluate(X))


def test_images_lie_in_any_folders(tmp_path: Path):
    drawn = np.random.default_rng(0).integers(0, 256, (5, 6, 6, 3), np.uint8)
    for name, pixels in zip(["b.png", "a/0.png", "a/1.png", "c/d/2.png"], drawn, strict=False):
        file = tmp_path / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        Image.fromarray(pixels).save(content, "PNG")
        file.write_bytes(content.getvalue())
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(108, 2))
    odtc.from_torch(net, (torch.zeros(4, 3, 6, 6),), tmp_path / "net.onnx")
    trainer = odtc.compile(tmp_path / "net.onnx", batch=4, loss="cross-entropy").trainer()
    x = drawn[[1, 2, 0, 3]].transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
    with pytest.warns(UserWarning, match=r"images are made 6 x 6, their numbers lie in \[0, 1\]$"):
        found = trainer.predict(tmp_path / "photos")
    np.testing.assert_array_equal(found, trainer.evaluate(x))
    (tmp_path / "photos" / "page.jpg").write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"1 file is not a readable image: page\.jpg"):
        trainer.predict(tmp_path / "photos")
    with pytest.warns(UserWarning, match="images") as said:
        assert len(trainer.predict(tmp_path / "photos", skip_broken=True)) == 4
    assert "left out are 1 image that cannot be read: page.jpg" in str(said[-1].message)


def test_an_output_of_a_whole_batch_is_that_of_a_whole_batch(tmp_path: Path):
    turned = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Unflatten(0, (3, BATCH)))
    net = torch.nn.Sequential(torch.nn.Linear(6, 3), turned)
    odtc.from_torch(net, (torch.zeros(BATCH, 6),), tmp_path / "net.onnx", batch_axis=None)
    trainer = odtc.compile(tmp_path / "net.onnx", loss="mse").trainer()
    first = X[:BATCH]
    np.savez(tmp_path / "one.npz", x=first)
    np.savez(tmp_path / "more.npz", x=X)
    np.testing.assert_array_equal(trainer.predict(tmp_path / "one.npz"), trainer.evaluate(first))
    with pytest.raises(DataError, match="it is evaluated for one batch of 8"):
        trainer.predict(tmp_path / "more.npz")
    with pytest.raises(DataError, match="2 batches of it do not form one output"):
        trainer.predict([(first, None), (first, None)])


def test_inputs_that_nothing_of_the_output_depends_on_need_not_be_there(tmp_path: Path):
    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(6, 1)

        def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> dict[str, torch.Tensor]:
            y = self.layer(x)[:, 0]
            return {"loss": ((y - wanted) ** 2).mean(), "price": y}

    example = (torch.zeros(BATCH, 6), torch.zeros(BATCH))
    odtc.from_torch(WithLoss(), example, tmp_path / "net.onnx")
    trainer = odtc.compile(tmp_path / "net.onnx", batch=BATCH, loss="in-model").trainer()
    np.savez(tmp_path / "new.npz", x=X)
    np.testing.assert_array_equal(
        trainer.predict(tmp_path / "new.npz", "price"), trainer.evaluate({"x": X}, "price")
    )


def test_a_frame_with_a_column_for_each_input(tmp_path: Path):
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, size: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
            return self.layer(size) + age

    example = (torch.zeros(BATCH, 1), torch.zeros(BATCH, 1))
    odtc.from_torch(Sum(), example, tmp_path / "net.onnx")
    trainer = odtc.compile(tmp_path / "net.onnx", batch=BATCH, loss="mse").trainer()
    frame = pandas.DataFrame({"age": X[:, 0], "y": X[:, 2], "size": X[:, 1]})
    frame.to_csv(tmp_path / "new.csv", index=False)
    expected = trainer.evaluate({"age": X[:, :1], "size": X[:, 1:2]})
    np.testing.assert_array_equal(trainer.predict(frame), expected)
    np.testing.assert_array_equal(trainer.predict(tmp_path / "new.csv"), expected)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ("none.npz", DataError, "the data file .*none.npz|does not exist"),
        ([("x",)], DataError, "input has shape"),
        (iter([]), DataError, "there are no samples"),
        (DataLoader(TensorDataset(torch.zeros(9, 4)), 3), DataError, "has shape"),
    ],
)
def test_what_is_no_data_is_refused(
    trainer: odtc.Trainer, data: Any, error: type[Exception], said: str
):
    with pytest.raises(error, match=said):
        trainer.predict(data)


def test_an_empty_folder_needs_no_classes(trainer: odtc.Trainer, tmp_path: Path):
    with pytest.raises(DataError, match=r"without images, and without \.npy files") as error:
        trainer.predict(tmp_path)
    assert error.value.hint == "put images into it, in any folders, or give a file of samples"


def test_what_comes_from_a_device_is_no_file(trainer: odtc.Trainer):
    with pytest.raises(DataError, match="is a pipe or a device, not a file") as error:
        trainer.predict("/dev/null")
    assert error.value.hint == "write what comes from it to a file, and give that"


def test_arguments(trainer: odtc.Trainer):
    with pytest.raises(UsageError, match="'scores' cannot be evaluated"):
        trainer.predict(X, "scores")
    with pytest.raises(UsageError, match="end_token is '</s>'") as error:
        trainer.predict(["a"], end_token="</s>")
    assert error.value.where == "predict"
    with pytest.warns(DeprecationWarning, match=r"predict\(x=...\) is an old name: write data="):
        by_old_name = trainer.predict(**{"x": X})  # pyright: ignore[reportCallIssue, reportArgumentType]
    np.testing.assert_array_equal(by_old_name, trainer.evaluate(X))
