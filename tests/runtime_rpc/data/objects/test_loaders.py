"""Loaders whose batches are mappings, and datasets that can only be gone through."""

import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import odtc
from odtc.core.errors import DataError, UsageError
from tests.runtime_rpc.loop.models import BATCH, SAMPLES, classed, step_of

X, Y = classed()
STREAM = "is a stream: it is not shuffled here"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("loaders"), "cross-entropy")


def losses(artifact: odtc.Artifact, data: Any, **options) -> list[float]:
    history = artifact.trainer(threads=1).fit(data, lr=0.1, epochs=2, **options)
    return history["loss"] + (history["val_loss"] if "validation" in options else [])


def batches(size: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[n : n + size], Y[n : n + size]) for n in range(0, SAMPLES, size)]


MAPPINGS = {
    "by name": [{"input": x, "label": y} for x, y in batches()],
    "as a collator has them": [{"x": x, "labels": torch.tensor(y)} for x, y in batches()],
    "the only one": [{"labels": y, "pixel_values": x} for x, y in batches()],
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_batches_that_are_mappings_go_by_name(artifact: odtc.Artifact, name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the last . samples of the last epoch fill no b")
        found = losses(artifact, MAPPINGS[name], validation=[*MAPPINGS[name]])
    assert found == losses(artifact, batches(), validation=batches())
    whole = [{"input": x, "labels": y} for x, y in batches(BATCH)[:-1]]
    trainer = artifact.trainer(threads=1)
    other = artifact.trainer(threads=1)
    assert [*trainer.train(whole, lr=0.1)] == [*other.train(batches(BATCH)[:-1], lr=0.1)]


def test_a_loader_of_several_inputs_goes_by_name(tmp_path: Path):
    """As batches of a tokenizer and its collator do, or as tensors one after the other."""

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(6, 3)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.layer(input_ids * attention_mask)

    example = (torch.zeros(BATCH, 6), torch.ones(BATCH, 6))
    odtc.from_torch(Two(), example, tmp_path / "two.onnx")
    step = odtc.compile(tmp_path / "two.onnx", batch=BATCH)
    mask = np.ones_like(X)
    names = [item.name for item in step.manifest.inputs]
    arrays = dict(zip(names, (X, mask), strict=True))
    rows = [dict(zip(names, (X[n], mask[n]), strict=True)) for n in range(SAMPLES)]
    mapped = DataLoader([row | {"labels": int(y)} for row, y in zip(rows, Y, strict=True)], 5)  # type: ignore[arg-type]
    flat = DataLoader(TensorDataset(*map(torch.tensor, (X, mask, Y))), 5)
    pairs = [({n: a[k : k + 5] for n, a in arrays.items()}, Y[k : k + 5]) for k in range(0, 53, 5)]
    wanted = losses(step, pairs)
    assert losses(step, mapped) == wanted
    assert losses(step, flat) == wanted


def test_what_a_batch_has_beside_is_said_once(artifact: odtc.Artifact):
    more = [{"x": x, "labels": y, "attention_mask": x} for x, y in batches()]
    with pytest.warns(UserWarning, match="not taken, as they are neither inputs .*: attention_"):
        assert losses(artifact, more) == losses(artifact, batches())


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"x": X}, "a batch has no label"),
        ({"labels": Y, "a": X, "b": X}, "a batch has no input"),
        ({"x": X, "y": Y, "target": Y}, "the label of a batch may be y or target"),
    ],
)
def test_a_mapping_without_one_of_them_is_refused(artifact: odtc.Artifact, batch, message: str):
    with pytest.raises(DataError, match=message):
        losses(artifact, [batch])


class Rows(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        return iter([(X[n], int(Y[n])) for n in range(SAMPLES)])


class NamedRows(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        return iter([{"x": torch.tensor(X[n]), "label": Y[n]} for n in range(SAMPLES)])


def hugging_face(**columns: Any) -> datasets.IterableDataset:
    held = {"x": X.tolist(), "label": Y.tolist(), **columns}
    return datasets.Dataset.from_dict(held).to_iterable_dataset()


class CountedRows(Rows):
    def __len__(self) -> int:
        return SAMPLES


STREAMS = {
    "pairs": Rows,
    "with a length": CountedRows,
    "mappings": NamedRows,
    "Hugging Face": hugging_face,
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_give_a_sample_after_the_other(artifact: odtc.Artifact, name: str):
    stream = STREAMS[name]()
    with pytest.warns(UserWarning, match=STREAM):
        found = losses(artifact, stream, validation=STREAMS[name]())
    assert found == losses(artifact, batches(BATCH), validation=batches())
    assert losses(artifact, DataLoader(Rows(), 5)) == losses(artifact, batches())


def column_rows(order: list[int] | None = None) -> list[dict[str, Any]]:
    """A mapping a sample, with a column for each number."""
    order = order or [*range(X.shape[1])]
    return [
        {f"c{n}": float(x[n]) for n in order} | {"label": int(y)} for x, y in zip(X, Y, strict=True)
    ]


class ColumnRows(IterableDataset):
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


def test_streams_of_columns_are_tables(artifact: odtc.Artifact):
    """As a Dataset of Hugging Face with a column for each number, and its stream, are."""
    wanted = losses(artifact, batches(BATCH))
    rows, turned = column_rows(), column_rows([3, 1, 2, 0, 5, 4])
    tensors = [{name: torch.tensor(value) for name, value in row.items()} for row in rows]
    held = datasets.Dataset.from_list(rows)
    # Columns go by name: later samples may have them in another order.
    mixed = [rows[0], *turned[1:]]
    assert losses(artifact, held.to_iterable_dataset()) == losses(artifact, (X, Y))
    for stream in map(ColumnRows, (rows, tensors, mixed)):
        with pytest.warns(UserWarning, match=STREAM):
            assert losses(artifact, stream) == wanted
    trainer = artifact.trainer(threads=1)
    with pytest.warns(UserWarning, match=STREAM):
        trainer.fit(ColumnRows(rows), lr=0.1, validation=held)
    for data in (ColumnRows(turned), ColumnRows([{**row, "label": 0} for row in rows]), turned):
        np.testing.assert_allclose(trainer.predict(data), trainer.predict(X), atol=1e-6)
    assert losses(artifact, rows) == losses(artifact, (X, Y))
    one_short = [*rows[:3], {key: rows[3][key] for key in rows[3] if key != "c2"}, *rows[4:]]
    for data, said in (
        (one_short, "c2[^!]*the ColumnRows"),
        ([rows[0], 5], "a sample has no input"),
        ([{**row, "id": 1} for row in rows], "7 columns"),
        ([{key: row[key] for key in row if key != "label"} for row in rows], "label"),
    ):
        with pytest.warns(UserWarning, match=STREAM), pytest.raises(DataError, match=said):
            losses(artifact, ColumnRows(data))


def test_what_cannot_be_done_with_a_stream_is_said(artifact: odtc.Artifact):
    with pytest.warns(
        UserWarning, match="not taken, as they are neither inputs nor labels: id; the"
    ):
        losses(artifact, hugging_face(id=[*range(SAMPLES)]))
    with (
        pytest.warns(UserWarning, match=STREAM),
        pytest.raises(UsageError, match="nothing says how many steps the epochs"),
    ):
        losses(artifact, Rows(), schedule=odtc.schedules.Cosine)
    with pytest.raises(UsageError, match="augment needs samples that are asked for by number"):
        losses(artifact, Rows(), augment=["flip"])


def test_a_stream_that_shuffles_does_so_by_the_number_of_the_pass(artifact: odtc.Artifact):
    """As a DataLoader's generator is set before each pass: a run that goes on sees the same."""
    told = []

    class Told(Rows):
        def set_epoch(self, number: int) -> None:
            told.append(number)

    with pytest.warns(UserWarning, match=STREAM):
        losses(artifact, Told())
    assert told[:2] == [0, 1]


def test_splits_are_asked_for_one_of_them(artifact: odtc.Artifact):
    data = datasets.Dataset.from_dict({"x": X.tolist(), "label": Y.tolist()})
    splits = datasets.DatasetDict(train=data, test=data)
    with pytest.raises(UsageError, match=r"DatasetDict of several datasets, train, test") as error:
        losses(artifact, splits)
    assert error.value.hint == "give one of them, such as data['train']"
    assert losses(artifact, splits["train"]) == losses(artifact, (X, Y))


def test_labels_of_a_dataset_that_are_words_are_refused(artifact: odtc.Artifact):
    data = datasets.Dataset.from_dict({"x": X.tolist(), "label": ["cat"] * SAMPLES})
    with pytest.raises(DataError, match="label is a text, 'cat'; the step takes num") as error:
        losses(artifact, data)
    assert "class_encode_column" in (error.value.hint or "")


def test_lists_in_place_of_arrays_are_told_what_to_be(artifact: odtc.Artifact):
    for data in ([X, Y], (X.tolist(), Y.tolist())):
        with pytest.raises(UsageError, match=r"all samples at once are a tuple \(x, y\)"):
            losses(artifact, data)


@pytest.mark.parametrize("name", ["label", "y", "labels", "target"])
def test_arrays_by_name_have_the_label_as_datasets_have_it(
    artifact: odtc.Artifact, tmp_path: Path, name: str
):
    arrays: dict[str, Any] = {"input": X, name: Y}
    np.savez(tmp_path / "d.npz", **arrays)
    wanted = losses(artifact, (X, Y))
    assert losses(artifact, arrays) == wanted
    assert losses(artifact, str(tmp_path / "d.npz")) == wanted


def test_a_list_of_labels_goes_with_an_array(artifact: odtc.Artifact):
    assert losses(artifact, (X, Y.tolist())) == losses(artifact, (X, Y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_labels_that_are_whole_floats_are_classes_in_each_way(artifact: odtc.Artifact, dtype: type):
    """As `fit` takes them; PyTorch's collators and tables have such."""
    x, y = X[:BATCH], Y[:BATCH]
    wanted = artifact.trainer(threads=1).step(x, y, lr=0.1)
    said = "step: label is float.., of whole numbers: they are taken as classes"
    trainer = artifact.trainer(threads=1)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        assert trainer.step(x, y.astype(dtype), lr=0.1) == wanted
        trainer.step(x, y.astype(dtype), lr=0.1)
    assert [str(each.message)[:14] for each in noted] == [said[:14]]
    steps = artifact.trainer(threads=1).train([(x, torch.tensor(y.astype(dtype)))], lr=0.1)
    with pytest.warns(UserWarning, match=said):
        assert [*steps] == [wanted]
    for wrong, reason in ((0.5, "must be integers"), (np.nan, "labels of label are missing")):
        labels = y.astype(dtype)
        labels[1] = wrong
        with pytest.raises(DataError, match=reason):
            trainer.step(x, labels, lr=0.1)


def test_truth_values_are_classes_of_a_step(artifact: odtc.Artifact):
    wanted = artifact.trainer(threads=1).step(X[:BATCH], (Y[:BATCH] > 1).astype(int), lr=0.1)
    with pytest.warns(UserWarning, match="label holds truth values: false is class 0"):
        assert artifact.trainer(threads=1).step(X[:BATCH], Y[:BATCH] > 1, lr=0.1) == wanted


def test_labels_of_a_loader_that_do_not_fit_are_told_how(artifact: odtc.Artifact, tmp_path: Path):
    with pytest.raises(DataError, match="labels are texts, such as 'cat'; they must be integers"):
        losses(artifact, [(X, np.array(["cat"] * SAMPLES))])
    numbers = step_of(tmp_path, "mse", 1).trainer(threads=1)
    with pytest.raises(DataError, match=r"give each number an axis of its own: y\[:, None\], or"):
        numbers.step(X[:BATCH], Y[:BATCH].astype(np.float32), lr=0.1)


@pytest.mark.parametrize("name", ["datasets", "torch.utils.data"])
def test_a_module_of_that_name_without_such_datasets(
    artifact: odtc.Artifact, name: str, monkeypatch: pytest.MonkeyPatch
):
    """A user's own file may be called datasets.py."""
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert len(losses(artifact, [(X, Y)])) > 0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_loader_of_texts_is_told_where_texts_go(artifact: odtc.Artifact, size: int):
    """A batch of two of them is no pair of an input and labels."""
    texts: Any = ["one text", "another", "and a third"]
    loader = DataLoader(texts, batch_size=size)
    with pytest.raises(DataError, match=r"text was fed, such as '.+', but"):
        artifact.trainer(threads=1).fit(loader, lr=0.1)
