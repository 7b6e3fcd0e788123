"""A sample in which something is wrong is told by its place in the data, however it is shuffled."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import odtc
from odtc.core.errors import DataError, NumericError
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed()
AT = 37
BROKEN = X.copy()
BROKEN[AT, 2] = np.nan


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("told"), "cross-entropy")


def with_label(value: Any) -> list[Any]:
    labels = Y.tolist()
    labels[AT] = value
    return labels


class Pairs:
    """A dataset of pairs."""

    def __init__(self, labels: list[Any]) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        return X[number], self.labels[number]


@pytest.mark.parametrize("form", ["a dataset", "a list of samples", "arrays"])
@pytest.mark.parametrize(
    ("value", "said"), [(float("nan"), "are missing, the first in sample 37"), (7, "sample 37$")]
)
def test_a_wrong_label(artifact: odtc.Artifact, form: str, value: Any, said: str):
    labels = with_label(value)
    forms: dict[str, Any] = {
        "a dataset": Pairs(labels),
        "a list of samples": [*zip(X, labels, strict=True)],
        "arrays": (X, np.array(labels)),
    }
    with pytest.raises(DataError) as failure:
        artifact.trainer(threads=1).fit(forms[form], lr=0.1)
    told = f"{failure.value.what} {failure.value.where if value == 7 else ''}".strip()
    assert told.endswith(said.removesuffix("$"))


def test_numbers_that_are_not_finite(artifact: odtc.Artifact):
    data = TensorDataset(torch.tensor(BROKEN), torch.tensor(Y))
    with (
        pytest.warns(UserWarning, match=r"in a batch: 1 of 48 .* the first is nan in sample 37:"),
        pytest.raises(NumericError),
    ):
        artifact.trainer(threads=1).fit(data, lr=0.1)


def test_a_batch_of_which_nobody_knows_more(artifact: odtc.Artifact):
    labels: Any = [0, 1, None, 2, 0, 1, 2, 0]
    with pytest.raises(DataError, match=r"1 of 8 labels .* the first in sample 2 of its batch"):
        artifact.trainer(threads=1).fit([(X[:8], labels)], lr=0.1)
    with pytest.raises(DataError, match="1 of 8 labels are missing: None") as failure:
        artifact.trainer(threads=1).step(X[:8], labels, lr=0.1)
    assert failure.value.where == "label, sample 2"


def test_a_list_of_labels_with_one_missing_goes_with_an_array(artifact: odtc.Artifact):
    with pytest.raises(DataError, match=r"1 of 53 labels of label are missing.* sample 37"):
        artifact.trainer(threads=1).fit((X, with_label(None)), lr=0.1)
