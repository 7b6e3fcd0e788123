"""`odtc train` on text: what a language model is fed, and its perplexity on held-out text."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode, OdtcError
from odtc.runtime_rpc.loop.measured import at_once
from odtc.runtime_rpc.trainer import Trainer
from tests.runtime_rpc.data.text.words import WORDS, write_tokenizer

LENGTH = 6
LOSS = "cross-entropy{axis=2,ignore-index=-100}"
LINES = [
    {"text": "the cat sat on the mat"},
    {"prompt": "the dog", "completion": "ran"},
    {"text": "a dog sat on a mat the cat ran"},
    {"text": "the dog ran on the mat"},
]


class Model(nn.Module):
    """The mean of the words before, which padding at the right does not change; with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(len(WORDS), 8), nn.Linear(8, len(WORDS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.words(input_ids) * attention_mask[..., None]
        return self.head(x + torch.cumsum(x, 1) / 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact, a tokenizer and text."""
    folder = tmp_path_factory.mktemp("text")
    torch.manual_seed(0)
    module = Model()
    example = torch.ones(2, LENGTH, dtype=torch.int64)
    odtc.from_torch(module, (example, example), folder / "m.onnx")
    torch.save(module.state_dict(), folder / "m.pt")
    for name, loss in (("m.odtc", LOSS), ("strict.odtc", "cross-entropy{axis=2}")):
        odtc.compile(folder / "m.onnx", batch=2, loss=loss).save(folder / name)
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    write_tokenizer(folder / "t.json")
    return folder


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def train(*more: str, artifact: str = "m.odtc", data: str = "t.jsonl") -> int:
    return main(["train", artifact, "--data", data, "--steps", "2", *more])


def trained(capsys: pytest.CaptureFixture[str], *more: str, **options: Any) -> dict[str, Any]:
    assert train("--lr", "0", "--json", *more, **options) == ExitCode.OK
    return json.loads(capsys.readouterr().out)


def expected(folder: Path, documents: list[tuple[list[int], int]]) -> tuple[float, float]:
    """Perplexity and accuracy by PyTorch, a document at a time; from so many tokens on."""
    module = Model()
    module.load_state_dict(torch.load(folder / "m.pt"))
    losses, right = [], []
    for ids, first in documents:
        cut = torch.tensor([ids[: LENGTH + 1]])
        with torch.no_grad():
            scores = module(cut[:, :-1], torch.ones_like(cut[:, :-1]))[0, max(first - 1, 0) :]
        labels = cut[0, max(first, 1) :]
        losses += nn.functional.cross_entropy(scores, labels, reduction="none").tolist()
        right += (scores.argmax(1) == labels).tolist()
    return float(np.exp(np.mean(losses))), float(np.mean(right))


def of_rows(folder: Path, rows: list[tuple[list[int], list[bool]]]) -> float:
    """The perplexity by PyTorch of rows in which some tokens do not count."""
    module = Model()
    module.load_state_dict(torch.load(folder / "m.pt"))
    losses = []
    for ids, left_out in rows:
        row = torch.tensor([ids])
        with torch.no_grad():
            scores = module(row[:, :-1], torch.ones_like(row[:, :-1]))[0]
        each = nn.functional.cross_entropy(scores, row[0, 1:], reduction="none").tolist()
        losses += [loss for loss, out in zip(each, left_out[1:], strict=True) if not out]
    return float(np.exp(np.mean(losses)))


def ids_of(line: dict[str, str]) -> tuple[list[int], int]:
    words = [WORDS.index(word) for word in " ".join(line.values()).split()]
    prompt = len(line["prompt"].split()) + 1 if "prompt" in line else 0
    return [0, *words, 1], prompt


def test_a_document_a_row(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ("--tokenizer", "t.json", "--end-token", "</s>")
    found = trained(capsys, *text, "--eval-data", "t.jsonl")
    perplexity, accuracy = expected(here, [ids_of(line) for line in LINES])
    assert found["perplexity"] == pytest.approx(perplexity, rel=1e-5)
    assert found["accuracy"] == pytest.approx(accuracy)
    assert train("--lr", "0.1", *text, "--eval-data", "t.jsonl") == ExitCode.OK
    printed = capsys.readouterr()
    said = "t.jsonl: 4 rows of 6, one document each; 20 tokens are learned; 6 tokens are left out"
    assert f"note: {said}: their documents are longer than a row" in printed.err
    assert ", perplexity " in printed.out


def test_a_validation_has_the_perplexity_of_what_counts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ("--tokenizer", "t.json", "--end-token", "</s>")
    held = ("--validation", "t.jsonl", "--eval-data", "t.jsonl")
    documents = [ids_of(line) for line in LINES]
    found = trained(capsys, *text, *held)
    assert found["val_perplexity"] == found["perplexity"] == found["history"][-1]["val_perplexity"]
    assert found["val_perplexity"] == pytest.approx(expected(here, documents)[0], rel=1e-5)
    assert found["val_loss"] == found["eval_loss"] == pytest.approx(np.log(found["perplexity"]))
    packed = trained(capsys, *text, *held, "--pack", "--metrics", "accuracy")
    # One stream in rows of six, each token of which learns the next one; three are of a prompt.
    stream = [each for ids, _ in documents for each in ids]
    prompt = [n for ids, first in documents for n in np.arange(len(ids)) < first]
    cuts = [slice(start, start + LENGTH + 1) for start in range(0, len(stream) - 1, LENGTH)]
    rows = [(stream[cut], prompt[cut]) for cut in cuts]
    assert packed["val_perplexity"] == pytest.approx(of_rows(here, rows), rel=1e-5)
    assert packed["val_perplexity"] != pytest.approx(found["val_perplexity"], rel=1e-3)
    assert packed["val_accuracy"] == packed["accuracy"]


def test_scores_of_many_words_are_evaluated_in_parts(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of no more bytes than a bound: all samples together in one part give the same."""
    held = ("--tokenizer", "t.json", "--eval-data", "t.jsonl")
    whole = trained(capsys, *held)
    parts, evaluate = [], Trainer._evaluated

    def counted(self: Trainer, x: Any, *more: Any, **options: Any) -> np.ndarray:
        scores = evaluate(self, x, *more, **options)
        parts.append(len(scores))
        return scores

    monkeypatch.setattr(Trainer, "_evaluated", counted)
    monkeypatch.setattr(at_once, "_PART_BYTES", 3 * LENGTH * len(WORDS) * 4)
    cut = trained(capsys, *held)
    assert parts == [2, 2]
    assert cut["perplexity"] == pytest.approx(whole["perplexity"], rel=1e-6)


def test_rows_that_are_packed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--lr", "0", "--tokenizer", "t.json", "--pack") == ExitCode.OK
    # 7, 4, 10 and 7 tokens, of which three are a prompt; the last row is filled up.
    said = "t.jsonl: 5 rows of 6, packed; 24 tokens are learned"
    assert f"note: {said}\n" in capsys.readouterr().err


def test_tokens_that_are_ready(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = np.random.default_rng(0).integers(0, len(WORDS), (4, LENGTH + 1))
    np.savez("rows.npz", tokens=tokens.astype(np.uint16))
    Path("rows").mkdir()
    np.save("rows/tokens.npy", tokens)
    save_file({"tokens": tokens.reshape(-1)}, "stream.safetensors")
    mask = np.ones((4, LENGTH), np.int64)
    arrays = {"input_ids": tokens[:, :-1].copy(), "attention_mask": mask, "y": tokens[:, 1:].copy()}
    save_file(arrays, "arrays.safetensors")
    by = {
        name: trained(capsys, "--eval-data", name, data=name)["perplexity"]
        for name in ("rows.npz", "rows", "arrays.safetensors")
    }
    assert by["rows.npz"] == by["rows"] == by["arrays.safetensors"]
    assert by["rows.npz"] == pytest.approx(expected(here, [(t.tolist(), 0) for t in tokens])[0])
    assert train("--lr", "0", "--pack", data="stream.safetensors") == ExitCode.OK
    assert "5 rows of 6, packed; 27 tokens" in capsys.readouterr().err


def test_a_loop_in_python_has_the_perplexity(here: Path) -> None:
    lines = [{"input_ids": ids_of(line)[0]} for line in LINES]
    Path("ids.jsonl").write_text("\n".join(map(json.dumps, lines)))
    trainer = odtc.load("m.odtc").trainer()
    with pytest.warns(UserWarning, match="4 rows of 6, one document each; 22 tokens are learned"):
        history = trainer.fit("ids.jsonl", lr=0.0, validation="ids.jsonl")
    perplexity, _ = expected(here, [(line["input_ids"], 0) for line in lines])
    assert history.rows[-1]["val_perplexity"] == pytest.approx(perplexity, rel=1e-5)


WRONG = {
    "the data is text, and there is no tokenizer": ((), {}, ExitCode.USAGE),
    "--end-token needs a tokenizer": (("--end-token", "</s>"), {}, ExitCode.USAGE),
    "the loss ignores no label": (
        ("--tokenizer", "t.json"),
        {"artifact": "strict.odtc"},
        ExitCode.DATA,
    ),
    "nothing to learn within 6 tokens: none has a": ((), {"data": "one.jsonl"}, ExitCode.DATA),
    "labels of all their tokens are ignored": ((), {"data": "none.jsonl"}, ExitCode.DATA),
    "provide shorter prompts, or export": ((), {"data": "late.jsonl"}, ExitCode.DATA),
    "1 document has no token": ((), {"data": "empty.jsonl"}, ExitCode.DATA),
    "line 1": ((), {"data": "bad.jsonl"}, ExitCode.DATA),
    "not a readable safetensors file": ((), {"data": "bad.safetensors"}, ExitCode.DATA),
    "token 99 is outside [0, 11)": ((), {"data": "large.jsonl"}, ExitCode.DATA),
    "tokenizer of this model": ((), {"data": "large.jsonl"}, ExitCode.DATA),
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_cannot_be_fed(reason: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.jsonl").write_text('{"input_ids": [3]}\n')
    Path("empty.jsonl").write_text('{"input_ids": []}\n')
    Path("none.jsonl").write_text('{"input_ids": [3, 1, 2], "labels": [-100, -100, -100]}\n' * 4)
    late = {"input_ids": [1] * 9, "labels": [-100] * 8 + [1]}
    Path("late.jsonl").write_text(f"{json.dumps(late)}\n" * 4)
    Path("bad.jsonl").write_text("{}\n")
    Path("large.jsonl").write_text('{"input_ids": [99, 1, 2]}\n{"input_ids": [99, 1, 2]}\n')
    Path("bad.safetensors").write_bytes(b"bad")
    more, options, code = WRONG[reason]
    assert train("--lr", "0", *more, **options) == code
    assert reason in capsys.readouterr().err


def test_a_validation_of_text_without_labels_has_no_loss(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one of arrays."""
    ids, labels = [3, 1, 2, 1, 1, 1], [-100] * LENGTH
    line = {"input_ids": ids, "labels": labels}
    Path("none.jsonl").write_text(f"{json.dumps(line)}\n" * 2)
    arrays = {"attention_mask": np.ones((2, LENGTH), np.int64), "y": np.array([labels] * 2)}
    np.savez("none.npz", input_ids=np.array([ids] * 2), **arrays)
    for name in ("none.jsonl", "none.npz"):
        options = ("--lr", "0", "--tokenizer", "t.json", "--validation", name, "--eval-data", name)
        assert train(*options, "--json") == ExitCode.OK
        said = capsys.readouterr()
        assert f"{name}: no label of the validation data counts" in said.err
        summary = json.loads(said.out)
        assert summary["val_loss"] is summary["eval_loss"] is None


def test_a_step_of_images_takes_no_text(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odtc.from_torch(nn.Linear(4, 3), torch.zeros(2, 4), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", batch=2).save(tmp_path / "m.odtc")
    code = train("--lr", "0", "--tokenizer", "t.json", artifact=str(tmp_path / "m.odtc"))
    assert code == ExitCode.UNSUPPORTED
    assert "the step is not of a language model" in capsys.readouterr().err


def test_texts_in_python_train_as_those_of_a_file(here: Path):
    artifact = odtc.load("m.odtc")
    text = {"tokenizer": "t.json", "end_token": "</s>", "pack": True}
    run = {"lr": 0.1, "steps": 3, "validation": "t.jsonl"}
    wanted = artifact.trainer(threads=1)
    history = wanted.fit("t.jsonl", **run, **text)
    assert history.keys()[-1] == "val_perplexity"
    options = "--tokenizer t.json --end-token </s> --pack --checkpoint c.ckpt --threads 1".split()
    assert main([*"train m.odtc --data t.jsonl --lr 0.1 --steps 3".split(), *options]) == 0
    same = artifact.trainer(threads=1)
    same.load_checkpoint("c.ckpt")
    texts = [each["text"] for each in LINES if "text" in each]
    found = {"a file": (wanted, same)}
    for name, data in (
        ("mappings", LINES),
        ("a Dataset", datasets.Dataset.from_list([{"text": each} for each in texts])),
        ("texts", texts),
    ):
        trainer = artifact.trainer(threads=1)
        trainer.fit(data, **run, **text)
        found[name] = (trainer, wanted)
    found["a Dataset"] = (found["a Dataset"][0], found["texts"][0])
    del found["texts"]
    for name, (one, other) in found.items():
        for key, value in one.parameters().items():
            np.testing.assert_array_equal(value, other.parameters()[key], f"{name}: {key}")
    curve = wanted.find_learning_rate(texts, points=5, **text)
    assert len(curve.losses) == 5


class Texts(torch.utils.data.Dataset):
    """Has no end that it tells: it is asked for as many samples as it says."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Any:
        assert number < len(self.samples)
        return self.samples[number]


def test_documents_of_datasets_train_as_those_of_a_list(here: Path):
    """Texts, and tokens of any length without labels, as tokenizers make them."""
    trainer = odtc.load("m.odtc").trainer(threads=1)
    text = {"tokenizer": "t.json", "lr": 0.0, "steps": 2}
    texts = [{"text": each["text"]} for each in LINES if "text" in each]
    tokens = [{"input_ids": ids_of(line)[0]} for line in LINES]
    for rows, options in ((texts, text), (tokens, {"lr": 0.0, "steps": 2})):
        wanted = trainer.fit(rows, **options)["loss"]
        assert trainer.fit(Texts(rows), **options)["loss"] == wanted
        assert trainer.fit(datasets.Dataset.from_list(rows), **options)["loss"] == wanted
    # One that has labels gives them as a step compares them.
    whole = [{"input_ids": [3, 4, 5, 6, 7, 8], "attention_mask": [1] * 6, "labels": [1] * 6}] * 2
    assert trainer.fit(datasets.Dataset.from_list(whole), lr=0.0)["loss"]
    for data, said in (
        (datasets.Dataset.from_list(texts), "texts with tokenizer= beside them"),
        (datasets.Dataset.from_list(tokens).to_iterable_dataset(), "documents without labels go"),
        (iter(tokens), "documents without labels go as a list"),
    ):
        with pytest.raises(OdtcError) as caught:
            trainer.fit(data, lr=0.0)
        assert said in (caught.value.hint or "")


def test_what_documents_have_beside_is_said(here: Path):
    trainer = odtc.load("m.odtc").trainer(threads=1)
    rows = [{"input_ids": [1, 2, 3], "position_ids": [4, 5, 6], "id": 7}] * 2
    with pytest.warns(UserWarning, match="not taken of documents: position_ids, id"):
        trainer.fit(rows, lr=0.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"the data is text, and there is no tokenizer[^!]*tokenizer= in Python"),
        ({"end_token": "</s>"}, "end_token is '</s>', and there is no tokenizer"),
        ({"tokenizer": "none.json"}, "the tokenizer does not exist"),
    ],
)
def test_text_in_python_needs_a_tokenizer(here: Path, options: dict[str, Any], said: str):
    trainer = odtc.load("m.odtc").trainer(threads=1)
    with pytest.raises(OdtcError, match=said):
        trainer.fit(["the cat sat"] * 4, lr=0.1, **options)
    with pytest.raises(OdtcError, match=r"no text and no tokens[^!]*document 1"):
        trainer.fit(["the cat", 5], lr=0.1, tokenizer="t.json")


def test_text_is_predicted_by_the_model_that_is_exported_as_by_the_artifact(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = ["--data", "t.jsonl", "--tokenizer", "t.json"]
    checkpoint, model = str(tmp_path / "c"), str(tmp_path / "trained.onnx")
    options = ("--lr", "0.1", "--tokenizer", "t.json", "--checkpoint", checkpoint)
    assert train(*options, "--export", model) == ExitCode.OK
    capsys.readouterr()
    found = []
    for words in (["m.odtc", "--checkpoint", checkpoint], [model]):
        output = str(tmp_path / "scores.npy")
        assert main(["predict", *words, *held, "-o", output]) == ExitCode.OK
        found.append(np.load(output))
        said = capsys.readouterr().err
        assert "tokens are fed" in said
        assert "learn" not in said
    assert found[0].shape == (len(LINES), LENGTH, len(WORDS))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    # A text of one token has a row, too, from which nothing would be learned.
    (tmp_path / "short.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [1, 2]}\n')
    short = ["--data", str(tmp_path / "short.jsonl"), "-o", str(tmp_path / "short.npy")]
    assert main(["predict", model, *short]) == ExitCode.OK
    assert len(np.load(tmp_path / "short.npy")) == 2
    (tmp_path / "one.jsonl").write_text('{"input_ids": [1]}\n')
    assert (
        main(["predict", model, "--data", str(tmp_path / "one.jsonl"), *short[2:]]) == ExitCode.OK
    )
    assert "1 row of 6, one document each; 1 token is fed" in capsys.readouterr().err
    (tmp_path / "none.jsonl").write_text('{"input_ids": []}\n')
    assert main(["predict", model, "--data", str(tmp_path / "none.jsonl")]) == ExitCode.DATA
    assert "1 document has no token" in capsys.readouterr().err
