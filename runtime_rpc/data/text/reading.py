"""Text, and tokens without labels, as samples of a language model."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from odtc.runtime_rpc.data.samples import Samples, samples_in
from odtc.runtime_rpc.data.text.documents import (
    TEXTS,
    Document,
    documents_of,
    given_documents,
    read_documents,
)
from odtc.runtime_rpc.data.text.feed import arrays_of
from odtc.runtime_rpc.data.text.tokenizer import Tokenizer
from odtc.runtime_rpc.data.wanted import Wanted

# The array of a file that has tokens, and neither inputs nor labels.
TOKENS = "tokens"


def read_json_lines(path: Path, wanted: Wanted) -> Samples:
    """The samples of JSON lines; see `documents.py` for their forms.

    Raises:
        DataError: the file or the tokenizer cannot be read, or has no token.
        MissingPackageError: a tokenizer is given, and the package is not installed.
        UnsupportedError: the step is none of a language model.
        UsageError: there is text, and no tokenizer.
    """
    return _samples(read_documents(path, _tokenizer(wanted)), wanted, str(path))


def rows_of_documents(documents: Sequence[Any], wanted: Wanted) -> Samples:
    """The samples of texts, and of mappings such as lines hold; see `read_json_lines`."""
    return _samples(given_documents(documents, _tokenizer(wanted)), wanted, "data")


def is_document(item: Any) -> bool:
    """Whether something that a caller gives is a text, or has one."""
    return isinstance(item, str) or (
        isinstance(item, Mapping) and any(isinstance(item.get(key), str) for key in TEXTS)
    )


def _tokenizer(wanted: Wanted) -> Tokenizer | None:
    options = wanted.options
    return Tokenizer(options.tokenizer, options.end_token) if options.tokenizer else None


def has_tokens_alone(names: Collection[str], wanted: Wanted) -> bool:
    """Whether a file of arrays with these names has tokens, and neither inputs nor labels."""
    known = {item.spec.name for item in (*wanted.inputs, *wanted.labels)} | {"x", "y"}
    return TOKENS in names and known.isdisjoint(names)


def rows_of_tokens(tokens: np.ndarray, wanted: Wanted, where: str) -> Samples:
    """The samples of an array of tokens: one stream, or a document a row.

    Raises:
        DataError: it is no such array, or has no token.
        UnsupportedError: the step is none of a language model.
    """
    return _samples(documents_of(tokens, where), wanted, where)


def _samples(documents: Sequence[Document], wanted: Wanted, where: str) -> Samples:
    arrays, said, error = arrays_of(documents, wanted, where)
    found = samples_in(arrays, [*arrays], wanted, where)
    notes = (f"{where}: {'; '.join(said)}",)
    return replace(found, notes=notes, is_text=True, no_training=error)
