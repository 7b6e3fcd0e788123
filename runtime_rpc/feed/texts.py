"""Refuses texts where a step takes numbers, such as batches of a loader over them."""

from typing import Any

from odtc.core.errors import DataError
from odtc.core.options.kinds import shown


def check_no_texts(fed: Any, where: str | None = None) -> None:
    """Checks what is fed for an input, or for all of them.

    Args:
        fed: any.
        where: it is fed for, such as `input x`.

    Raises:
        DataError: it is a text, or a batch of them.
    """
    parts = fed if isinstance(fed, list | tuple) else [fed]
    if not parts or not all(isinstance(part, str) for part in parts):
        return
    raise DataError(
        f"text was fed, such as {shown(parts[0])}, but a step takes numbers",
        where=where,
        hint="give fit the texts themselves, as a list or a Dataset and not in a loader, with "
        'tokenizer="tokenizer.json"; or number their tokens in the loader\'s collate_fn',
    )
