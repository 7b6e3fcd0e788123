"""Numbers that are not finite are said of what is trained, measured and predicted, in any form."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import odtc
from odtc.core.errors import NumericError
from odtc.runtime_rpc.data import arrays
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed(24)
WRONG = X.copy()
WRONG[10, 2] = np.inf
FRAME = pandas.DataFrame(WRONG, columns=[*"abcdef"])
TENSORS = torch.tensor(WRONG), torch.tensor(Y)
WHOLE = "1 of 144 numbers of input are not finite, the first is inf in sample 10"
PART = "in a batch: 1 of 48 numbers of input are not finite, the first is inf in sample 2"

FORMS: dict[str, tuple[Callable[[], Any], str]] = {
    "a pair": (lambda: (WRONG, Y), WHOLE),
    "a frame": (lambda: FRAME.assign(label=Y), WHOLE),
    "a pair of a frame": (lambda: (FRAME, Y), WHOLE),
    "by name": (lambda: {"x": WRONG, "y": Y}, WHOLE),
    "a dataset": (lambda: TensorDataset(*TENSORS), "in a batch: 1 of "),
    "a loader": (lambda: DataLoader(TensorDataset(*TENSORS), 8), PART),
    "a list": (lambda: [(FRAME[n : n + 8], Y[n : n + 8]) for n in (0, 8, 16)], PART),
}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("finite"), "cross-entropy")


def said_of(call: Callable[[], Any]) -> list[str]:
    """What is said of numbers that are not finite."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if "are not finite" in str(each.message)]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_predicted(artifact: odtc.Artifact, form: str):
    make, expected = FORMS[form]
    trainer = artifact.trainer(threads=1)
    (said,) = said_of(lambda: trainer.predict(make()))
    assert expected in said
    assert said.endswith(": a prediction over them is none")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_trained_and_measured(artifact: odtc.Artifact, form: str):
    make, expected = FORMS[form]

    def fit() -> None:
        with pytest.raises(NumericError):
            artifact.trainer(threads=1).fit(make(), lr=0.1)

    (said,) = said_of(fit)
    assert expected in said
    assert said.endswith(": a loss over them is none")
    trainer = artifact.trainer(threads=1)
    (said,) = said_of(lambda: trainer.fit((X, Y), lr=0.0, validation=make()))
    assert ("in a batch" if form == "a dataset" else WHOLE) in said


def test_arrays_that_stay_in_their_file(
    artifact: odtc.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("odtc.runtime_rpc.data.mapped.LEAST_BYTES", 1)
    monkeypatch.setattr(arrays, "LEAST_BYTES", 1)
    np.savez(tmp_path / "d.npz", x=WRONG, y=Y)
    trainer, path = artifact.trainer(threads=1), str(tmp_path / "d.npz")
    (said,) = said_of(lambda: trainer.predict(path))
    assert f"{path}, in a batch: 1 of " in said
    (said,) = said_of(lambda: trainer.fit((X, Y), lr=0.0, validation=path))
    assert f"{path}, in a batch: 1 of " in said
