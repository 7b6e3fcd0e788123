"""Documents of tokens from JSON lines, one object a line.

    {"text": "..."}                             all of it is learned
    {"prompt": "...", "completion": "..."}      the completion alone is learned
    {"input_ids": [...]}                        tokens as they are; all are learned
    {"input_ids": [...], "labels": [...]}       those are learned whose label is not -100
    {"input_ids": [...], "attention_mask": [...]}   what is 0 there fills up, and is left out

Labels are those of their own tokens, as Hugging Face has them: they are shifted later.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odtc.core.errors import DataError, UsageError
from odtc.core.options.kinds import shown
from odtc.core.printable import counted
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.text.tokenizer import Tokenizer

TEXTS = ("text", "prompt", "completion")
"""Where a document has text."""
_IGNORED = -100
_MOST = 1 << 31
# Of each list: numbers that it may have lie below the first, or are one of the second.
_TOKENS = f"tokens are whole numbers from 0 to {_MOST - 1:,}"
_ELEMENTS: Mapping[str, tuple[int, Sequence[int], str]] = {
    "input_ids": (_MOST, (), _TOKENS),
    "labels": (_MOST, (_IGNORED,), f"{_TOKENS}, and {_IGNORED} is ignored"),
    "attention_mask": (2, (), "it is 1, or 0 for what fills the row up"),
}
_TOKEN_LISTS = tuple(_ELEMENTS)
_FORMS = (
    'a line is {"text": "..."}, {"prompt": "...", "completion": "..."} or {"input_ids": [1, 2]}, '
    'with "labels" of the same length or without; rows of numbers go as .csv or .parquet'
)
# Where data sets of chats have their turns.
_CHATS = ("messages", "conversations")
_OF_CHATS = (
    "there is no chat template here: give the input_ids that tokenizer.apply_chat_template of "
    "transformers makes of each chat, and as labels the same, with -100 where nothing is learned"
)


@dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
        ids: numbers of its tokens, int64 `[n]`.
        learned: which of them count in a loss, bool `[n]`.
        where: it comes from, for messages.
        others: what it had beside, which is not taken.
    """

    ids: np.ndarray
    learned: np.ndarray
    where: str = ""
    others: tuple[str, ...] = ()


def read_documents(path: Path, tokenizer: Tokenizer | None) -> list[Document]:
    """The documents of a file, in order; empty lines are left out.

    Raises:
        DataError: the file is missing, or a line is none of the forms.
        UsageError: there is text, and no tokenizer.
    """
    if not os.path.isfile(path):
        raise DataError("the data file does not exist", where=str(path), hint="check the path")
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except ValueError as error:
        raise DataError(f"not UTF-8 ({error})", where=str(path), hint=_FORMS) from error
    return [
        _document(line, tokenizer, f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def given_documents(documents: Sequence[Any], tokenizer: Tokenizer | None) -> list[Document]:
    """The documents of texts, and of mappings such as lines of a file hold.

    Args:
        documents: a list, or a Dataset: one of PyTorch is asked by number, and may have no end.
        tokenizer: of text.

    Raises:
        DataError: one is neither.
        UsageError: there is text, and no tokenizer.
    """
    by_number = map(documents.__getitem__, range(len(documents)))
    items: Iterable[Any] = documents if hasattr(documents, "__iter__") else by_number
    return [
        _document_of(
            {"text": each} if isinstance(each, str) else each, tokenizer, f"data, document {number}"
        )
        for number, each in enumerate(items)
    ]


def documents_of(tokens: np.ndarray, where: str) -> list[Document]:
    """The documents of an array of tokens: one, or one a row.

    Raises:
        DataError: it is no array of whole numbers with one or two axes.
    """
    if tokens.dtype.kind not in "iu" or tokens.ndim not in (1, 2):
        raise DataError(
            f"tokens is {tokens.dtype}{list(tokens.shape)}; it holds numbers of tokens",
            where=where,
            hint="save one axis of whole numbers, or two: one document per row",
        )
    if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) < _MOST:
        raise DataError(
            f"tokens has {int(tokens.min())} to {int(tokens.max())}; tokens are counted from 0",
            where=where,
            hint="leave out what fills rows up; JSON lines say which tokens are learned",
        )
    rows = tokens if tokens.ndim == 2 else tokens[None]
    return [
        Document(row.astype(np.int64), np.ones(len(row), bool), f"{where}, row {number}")
        for number, row in enumerate(rows)
    ]


def _document(line: str, tokenizer: Tokenizer | None, where: str) -> Document:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error})", where=where, hint=_FORMS) from error
    return _document_of(found, tokenizer, where)


def _document_of(found: Any, tokenizer: Tokenizer | None, where: str) -> Document:
    parts = list(_parts(found, tokenizer, where) if isinstance(found, Mapping) else ())
    if not parts:
        raise _no_document(found, where)
    ids, learned = (np.concatenate(each) for each in zip(*parts, strict=True))
    taken = _TOKEN_LISTS if "input_ids" in found else TEXTS
    others = tuple(str(name) for name in found if name not in taken)
    return Document(ids.astype(np.int64), learned.astype(bool), where, others)


def _no_document(found: Any, where: str) -> DataError:
    """The error of what has none of the forms: what it has, and what helps."""
    names = [str(name) for name in found] if isinstance(found, Mapping) else []
    what = f": it has {listed(names)}" if names else ""
    if texts := [name for name in TEXTS if name in names]:
        what = f" that go together: it has {' and '.join(texts)}"
    hint = _OF_CHATS if any(name in names for name in _CHATS) else _FORMS
    return DataError(f"the line has no text and no tokens{what}", where=where, hint=hint)


def _parts(
    found: Mapping[str, Any], tokenizer: Tokenizer | None, where: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pieces of a document: tokens, and which of them are learned."""
    if "input_ids" in found:
        yield _given(found, where)
        return
    texts = {name: found[name] for name in TEXTS if name in found}
    if set(texts) not in ({"text"}, {"prompt", "completion"}):
        return
    if not all(isinstance(text, str) and _is_unicode(text) for text in texts.values()):
        # A chat has a list of turns there.
        is_chat = any(isinstance(text, list) for text in texts.values())
        hint = _OF_CHATS if is_chat else _FORMS
        raise DataError(f"{' or '.join(texts)} is no text", where=where, hint=hint)
    if tokenizer is None:
        raise UsageError(
            "the data is text, and there is no tokenizer",
            where=where,
            hint="give the file of the model: --tokenizer tokenizer.json, or tokenizer= in Python",
        )
    for name, text in texts.items():
        ids = np.asarray(tokenizer.encode(text, begins=name != "completion"), np.int64)
        yield ids, np.full(len(ids), name != "prompt")
    if tokenizer.end is not None:
        yield np.asarray([tokenizer.end]), np.asarray([True])


def _is_unicode(text: str) -> bool:
    r"""Whether it can be written: JSON may have half of a pair of surrogates, as in "\ud83d"."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _given(found: Mapping[str, Any], where: str) -> tuple[np.ndarray, np.ndarray]:
    given = {name: _plain(found[name]) for name in _TOKEN_LISTS if name in found}
    ids, labels, mask = (given.get(name) for name in _TOKEN_LISTS)
    for name, numbers in given.items():
        _check_list(name, numbers, where)
    assert ids is not None
    for name, numbers in given.items():
        if len(numbers) != len(ids):
            raise DataError(
                f"{name} has {counted(len(numbers), 'element', 'elements')}, and input_ids has "
                f"{len(ids)}",
                where=where,
                hint=_FORMS,
            )
    # What fills a row up is no token of the document.
    real = np.asarray(mask, bool) if mask is not None else np.ones(len(ids), bool)
    if labels is None:
        return np.asarray(ids, np.int64)[real], real[real]
    learned = np.asarray(labels, np.int64) != _IGNORED
    for place, (token, label) in enumerate(zip(ids, labels, strict=True)):
        if label not in (token, _IGNORED):
            raise DataError(
                f"labels[{place}] is {label}, and input_ids[{place}] is {token}: a label is the "
                f"token itself, or {_IGNORED}",
                where=where,
                hint="labels are not shifted here: give each token again, or -100",
            )
    return np.asarray(ids, np.int64)[real], learned[real]


def _check_list(name: str, numbers: Any, where: str) -> None:
    """Checks each element of a list of a document.

    Raises:
        DataError: it is no list, or an element is none that it may have.
    """
    if not isinstance(numbers, list):
        raise DataError(f"{name} is not a list of token numbers", where=where, hint=_FORMS)
    most, others, of = _ELEMENTS[name]
    for place, value in enumerate(numbers):
        if type(value) is not int or not (0 <= value < most or value in others):
            raise DataError(f"{name}[{place}] is {shown(value)}; {of}", where=where, hint=_FORMS)


def _plain(numbers: Any) -> Any:
    """The list of an array or a tensor; the same of others."""
    return numbers.tolist() if hasattr(numbers, "tolist") else numbers
