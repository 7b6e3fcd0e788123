"""A tokenizer of the package `tokenizers`, from the `tokenizer.json` that models come with."""

import os
from collections.abc import Sequence
from pathlib import Path

from odtc.core.errors import DataError, UsageError

_FILE = "tokenizer.json"
_WHERE_FROM = f"check the path; transformers write {_FILE} by tokenizer.save_pretrained(FOLDER)"


class Tokenizer:
    """Text to numbers of tokens, and back.

    Args:
        path: of a `tokenizer.json`, or of the folder of a model that has one.
        end: the token that ends a document, such as `</s>`; None where none is added.

    Raises:
        DataError: the file is missing, or no tokenizer.
        MissingPackageError: the package is not installed.
        UsageError: the tokenizer has no such token.
    """

    def __init__(self, path: Path, end: str | None = None) -> None:
        # Imported here: text alone needs it.
        import tokenizers

        if os.path.isdir(path):
            path = Path(path) / _FILE
        if not os.path.isfile(path):
            raise DataError("the tokenizer does not exist", where=str(path), hint=_WHERE_FROM)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # Of Rust: it has no kind of its own.
            raise DataError(
                f"not a tokenizer ({error})",
                where=str(path),
                hint="give the tokenizer.json of the model",
            ) from error
        # Rows are cut and padded where the length of a step is known.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.end = None if end is None else self._tokenizer.token_to_id(end)
        if end is not None and self.end is None:
            raise UsageError(
                f"the tokenizer has no token {end!r}",
                where=str(path),
                hint="give the token that ends a document, as the tokenizer writes it",
            )

    def encode(self, text: str, *, begins: bool) -> list[int]:
        """The numbers of a text's tokens.

        Args:
            text: any.
            begins: whether a document begins with it: then it has the tokens that the tokenizer
                puts around one.
        """
        return self._tokenizer.encode(text, add_special_tokens=begins).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens, without special ones."""
        return self._tokenizer.decode(list(ids))
