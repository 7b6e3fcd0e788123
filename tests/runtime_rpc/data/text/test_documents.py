"""JSON lines and arrays as documents of tokens, and what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odtc.core.errors import DataError, OdtcError, UsageError
from odtc.runtime_rpc.data.text.documents import documents_of, given_documents, read_documents
from odtc.runtime_rpc.data.text.tokenizer import Tokenizer
from tests.runtime_rpc.data.text.words import write_tokenizer


def lines(folder: Path, *objects: object) -> Path:
    path = folder / "text.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in objects) + "\n\n")
    return path


def test_each_form(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"text": "the cat sat", "id": 5},
        {"prompt": "the dog", "completion": "ran on"},
        {"input_ids": [3, 4, 5]},
        {"input_ids": [3, 4, 5], "labels": [-100, 4, -100]},
        {"text": ""},
    )
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "t.json"), "</s>")
    found = [(each.ids.tolist(), each.learned.tolist()) for each in read_documents(path, tokenizer)]
    assert found == [
        ([0, 3, 4, 5, 1], [True] * 5),
        ([0, 3, 9, 10, 6, 1], [False] * 3 + [True] * 3),
        ([3, 4, 5], [True] * 3),
        ([3, 4, 5], [False, True, False]),
        ([0, 1], [True] * 2),
    ]
    assert tokenizer.decode([0, 3, 4, 1]) == "the cat"
    without = Tokenizer(tmp_path / "t.json")
    assert read_documents(path, without)[0].ids.tolist() == [0, 3, 4, 5]


def test_a_mark_of_the_byte_order_is_no_text(tmp_path: Path) -> None:
    path = lines(tmp_path, {"input_ids": [3, 4]})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [each.ids.tolist() for each in read_documents(path, None)] == [[3, 4]]


WRONG = {
    "line 2: not JSON": '{"input_ids": [1]}\n{"text"',
    "the line has no text and no tokens": "[1, 2]",
    "no text and no tokens that go together: it has prompt": '{"prompt": "the", "id": 5}',
    "it has text and prompt": '{"prompt": "the", "text": "the cat"}',
    "no text and no tokens: it has instruction, output": '{"instruction": "a", "output": "b"}',
    "prompt or completion is no text": '{"prompt": "the", "completion": 4}',
    "text is no text": '{"text": "half of a pair: \\ud83d"}',
    "input_ids[1] is 2.5; tokens are whole numbers from 0 to 2,147,483,647": (
        '{"input_ids": [1, 2.5]}'
    ),
    "input_ids[1] is an integer of 67 bits; tokens": '{"input_ids": [1, 99999999999999999999]}',
    "input_ids[1] is 1099511627776; tokens": '{"input_ids": [1, 1099511627776]}',
    "input_ids[0] is -100; tokens": '{"input_ids": [-100, 1]}',
    "input_ids is not a list of token numbers": '{"input_ids": 5}',
    "labels is not a list of token numbers": '{"input_ids": [1], "labels": null}',
    "labels[1] is -3; tokens are whole": '{"input_ids": [1, 2], "labels": [1, -3]}',
    "labels[0] is 2, and input_ids[0] is 1: a label is the token itself, or -100": (
        '{"input_ids": [1, 2], "labels": [2, -100]}'
    ),
    "labels has 1 element, and input_ids has 2": '{"input_ids": [1, 2], "labels": [1]}',
    "attention_mask[1] is 7; it is 1, or 0": '{"input_ids": [1, 2], "attention_mask": [1, 7]}',
    "attention_mask[0] is -3; it is 1": '{"input_ids": [1], "attention_mask": [-3]}',
    "attention_mask has 0 elements, and input_ids has 1": (
        '{"input_ids": [1], "attention_mask": []}'
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_wrong_lines(reason: str, tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(WRONG[reason])
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "t.json"))
    with pytest.raises(DataError) as caught:
        read_documents(path, tokenizer)
    text = str(caught.value).replace("\n  where: ", " ")
    where = f"{path}, line {reason[5]}" if reason.startswith("line") else str(path)
    assert reason.partition(": ")[2] in text if reason.startswith("line") else reason in text
    assert where in text


def test_text_needs_a_tokenizer_and_files_are_there(tmp_path: Path) -> None:
    path = lines(tmp_path, {"text": "the"})
    with pytest.raises(UsageError, match="the data is text, and there is no tokenizer"):
        read_documents(path, None)
    with pytest.raises(DataError, match="the data file does not exist"):
        read_documents(tmp_path / "none.jsonl", None)
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_documents(path, None)
    with pytest.raises(DataError, match="the tokenizer does not exist"):
        Tokenizer(tmp_path / "none.json")
    with pytest.raises(DataError, match="not a tokenizer"):
        Tokenizer(lines(tmp_path, {}))
    with pytest.raises(UsageError, match="the tokenizer has no token '<end>'"):
        Tokenizer(write_tokenizer(tmp_path / "t.json"), "<end>")


def test_arrays_of_tokens() -> None:
    rows = documents_of(np.arange(6, dtype=np.uint16).reshape(2, 3), "a.npz")
    assert [each.ids.tolist() for each in rows] == [[0, 1, 2], [3, 4, 5]]
    assert len(documents_of(np.arange(6), "a.npz")) == 1
    for wrong in (np.zeros(3, np.float32), np.zeros((1, 1, 1), int), np.int64(3)):
        with pytest.raises(OdtcError, match="it holds numbers of tokens"):
            documents_of(np.asarray(wrong), "a.npz")
    for wrong in ([-100, 1], [2**63]):
        with pytest.raises(OdtcError, match="tokens are counted from 0"):
            documents_of(np.asarray(wrong), "a.npz")


@pytest.mark.parametrize(
    "line",
    [
        {"messages": [{"role": "user", "content": "the cat"}]},
        {"conversations": [{"from": "human", "value": "the cat"}]},
        {"prompt": [{"role": "user", "content": "the"}], "completion": "cat"},
    ],
)
def test_chats_are_told_to_become_tokens(line: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_documents(lines(tmp_path, line), None)
    assert "apply_chat_template" in (caught.value.hint or "")


def test_what_a_document_has_beside_is_known(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"text": "the", "id": 5},
        {"input_ids": [1], "attention_mask": [1], "position_ids": [7]},
    )
    found = read_documents(path, Tokenizer(write_tokenizer(tmp_path / "t.json")))
    assert [each.others for each in found] == [("id",), ("position_ids",)]


def test_a_dataset_without_an_end_is_asked_by_number() -> None:
    """As most of PyTorch are: what is no list gives a sample for each number."""

    class Endless:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, number: int) -> dict[str, list[int]]:
            assert number < 2
            return {"input_ids": [number, 1]}

    endless: Any = Endless()
    assert [each.ids.tolist() for each in given_documents(endless, None)] == [[0, 1], [1, 1]]


def test_a_tokenizer_may_be_the_folder_of_its_model(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not exist[^!]*tokenizer\.json"):
        Tokenizer(tmp_path)
    write_tokenizer(tmp_path / "tokenizer.json")
    assert Tokenizer(tmp_path).encode("the cat", begins=True) == [0, 3, 4]
