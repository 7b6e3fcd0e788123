"""Classes and columns have the same numbers in all data of a run, or it is refused."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError
from tests.runtime_rpc.loop.models import WIDTH, classed, step_of

X, Y = classed(16)
COLUMNS = [f"f{number}" for number in range(WIDTH)]
NAMES = ["cat", "dog", "eel"]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("names"), "cross-entropy")


class Folder(torch.utils.data.Dataset):
    """As torchvision's: the numbers of classes follow from the folders that there are."""

    def __init__(self, classes: list[str], target_transform: Any = None) -> None:
        self.classes, self.target_transform = classes, target_transform

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        return X[number], int(Y[number])


def hugging_face(names: list[str]) -> datasets.Dataset:
    features = datasets.Features(
        {
            "x": datasets.Sequence(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=names),
        }
    )
    return datasets.Dataset.from_dict({"x": X.tolist(), "label": Y.tolist()}, features=features)


def table(path: Path, columns: list[str]) -> Path:
    """The same rows, with the columns in another order."""
    rows = [[*(row[COLUMNS.index(name)] for name in columns), y] for row, y in zip(X, Y)]  # noqa: B905
    lines = [",".join([*columns, "y"]), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(artifact: odtc.Artifact, data: Any, validation: Any) -> float:
    trainer = artifact.trainer(threads=1)
    return trainer.fit(data, lr=0.1, steps=2, validation=validation)["val_loss"][0]


KINDS = {
    "Dataset": Folder,
    "part of a Dataset": lambda names: Subset(Folder(names), range(16)),
    "DataLoader": lambda names: DataLoader(Folder(names), batch_size=4),
    "Hugging Face": hugging_face,
}


@pytest.mark.parametrize("trained", KINDS)
@pytest.mark.parametrize("validated", ["Dataset", "DataLoader", "Hugging Face"])
def test_classes_of_datasets_have_one_number(artifact: odtc.Artifact, trained: str, validated: str):
    data = KINDS[trained](NAMES)
    with pytest.raises(DataError, match=r"class 1 is dog in .*, and eel here"):
        run(artifact, data, KINDS[validated](["cat", "eel"] + ["dog"] * (validated[0] == "H")))
    assert run(artifact, data, KINDS[validated](NAMES)) > 0


def test_what_nobody_knows_the_names_of_is_trained(artifact: odtc.Artifact):
    """Labels that are changed have other numbers than the classes."""
    run(artifact, Folder(NAMES), Folder(NAMES[::-1], target_transform=lambda number: 2 - number))
    run(artifact, Folder(NAMES), Folder(NAMES[:2]))
    run(artifact, Folder(NAMES), (X, Y))


def test_columns_of_tables_are_those_of_the_same_names(
    artifact: odtc.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data, other = table(tmp_path / "a.csv", COLUMNS), table(tmp_path / "b.csv", COLUMNS[::-1])
    same = table(tmp_path / "c.csv", COLUMNS)
    assert run(artifact, data, other) == run(artifact, data, same)
    artifact.save(tmp_path / "a.odtc")
    losses = []
    for measured in (other, same):
        asked = ["train", tmp_path / "a.odtc", "--data", data, "--eval-data", measured]
        assert main([*map(str, asked), "--lr", "0.1", "--json"]) == 0
        losses.append(json.loads(capsys.readouterr().out)["eval_loss"])
    assert losses[0] == losses[1]
    another = tmp_path / "another.csv"
    another.write_text(other.read_text().replace("f3", "g3"))
    with pytest.raises(DataError, match="had the columns f3, which are not there") as error:
        run(artifact, data, another)
    assert error.value.where == str(another)
