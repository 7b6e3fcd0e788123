"""What a step of several lengths does not do is refused, in words that say what to do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.errors import DataError, UnsupportedError
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LENGTHS,
    LOSS,
    TARGET,
    WORDS,
    decoder,
    ragged,
    save,
)

USUAL = {"batch": BATCH, "loss": LOSS, "lengths": LENGTHS}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = decoder(is_causal=True, has_mask=False)
    return save(module, tmp_path_factory.mktemp("file") / "decoder.onnx")


@pytest.fixture(scope="module")
def artifact(file: Path) -> odtc.Artifact:
    return odtc.compile(file, TARGET, **USUAL)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"memory_budget": "auto"}, "does not have several plans for each: memory_budget auto"),
        ({"offload": True, "memory_budget": 1 << 20}, "tensors that wait in storage: offload"),
        ({"lengths": (0, 4)}, "0 is not a length"),
        ({"shape": {"length": 4}}, "the model has no symbolic dimension other than the batch"),
    ],
)
def test_options_that_do_not_go_with_lengths(file: Path, options: dict, text: str) -> None:
    with pytest.raises(odtc.OdtcError, match=text) as caught:
        odtc.compile(file, **{"target": TARGET, **USUAL, **options})
    assert caught.value.where == "lengths"
    assert caught.value.hint


class Normalised(nn.Module):
    """Statistics over all places of all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.embedding(ids).transpose(1, 2)).transpose(1, 2))


def test_statistics_of_what_fills_a_batch_up(tmp_path: Path) -> None:
    torch.onnx.export(
        Normalised(),
        (torch.ones(2, 5, dtype=torch.int64),),
        tmp_path / "normalised.onnx",
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=["ids"],
        dynamic_axes={"ids": {0: "batch", 1: "length"}},
    )
    with pytest.raises(UnsupportedError, match="running statistics would be taken of what fills"):
        odtc.compile(tmp_path / "normalised.onnx", TARGET, **USUAL)


def test_a_model_that_looks_behind_is_fed_whole_lengths_alone(tmp_path: Path) -> None:
    module = decoder(is_causal=False, has_mask=False)
    artifact = odtc.compile(save(module, tmp_path / "both_ways.onnx"), TARGET, **USUAL)
    with artifact.trainer() as trainer:
        # Labels that are ignored at the end are no reason to cut a row: the model reads it.
        trainer.step(*ragged(module, (3, 2), 12, 0), lr=0.1)
        assert trainer.plan.arena_bytes == artifact.manifest.plans[0].arena_bytes
        trainer.step(*ragged(module, (8, 8), 8, 0), lr=0.1)
        for fed in (
            lambda: trainer.step(*ragged(module, (5, 5), 5, 0), lr=0.1),
            lambda: trainer.evaluate(ragged(module, (5, 5), 5, 0)[0]),
        ):
            with pytest.raises(DataError, match="rows have 5 places, and cannot be") as caught:
                fed()
            assert "depend on what comes behind" in caught.value.what
            assert caught.value.hint == "feed rows of 12, 8, 4"
        parts = [ragged(module, (8, 8), 8, 0), ragged(module, (12, 12), 12, 0)]
        trainer.fit(parts, lr=0.1, validation=parts[:1])
        with pytest.raises(DataError, match="rows of 8, 12 places, and cannot be filled") as caught:
            trainer.fit(parts, lr=0.1, validation=parts)
        assert caught.value.where == "validation"


def test_a_loss_that_ignores_no_label(file: Path) -> None:
    options = {**USUAL, "loss": "cross-entropy{axis=2}"}
    ids = np.ones((BATCH, 5), np.int64)
    with odtc.compile(file, TARGET, **options).trainer() as trainer:
        trainer.step(ids[:, :4], ids[:, :4], lr=0.1)
        with pytest.raises(DataError, match="no label says where they end"):
            trainer.step(ids, ids, lr=0.1)


def test_rows_that_no_length_holds(artifact: odtc.Artifact) -> None:
    module = decoder(is_causal=True, has_mask=False)
    with artifact.trainer() as trainer:
        trainer.step(*ragged(module, (12, 3), 15, 0), lr=0.1)  # nothing counts behind the twelfth
        with pytest.raises(DataError, match="rows have 13 places that count; the longest"):
            trainer.step(*ragged(module, (13, 3), 15, 0), lr=0.1)
        inputs, labels = ragged(module, (3, 3), 4, 0)
        with pytest.raises(DataError, match="rows differ in length"):
            trainer.step(inputs, labels[:, :3], lr=0.1)
        for wrong in (inputs["input_ids"][0], inputs["input_ids"][:, :0]):
            with pytest.raises(DataError, match=r"takes \[2, length\]"):
                trainer.step({"input_ids": wrong}, labels, lr=0.1)


def test_other_engines(artifact: odtc.Artifact) -> None:
    with pytest.raises(UnsupportedError, match="native runtime alone, here or in"):
        artifact.trainer(VirtualMachineHere())
