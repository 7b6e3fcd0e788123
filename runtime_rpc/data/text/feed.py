"""What a step of a language model takes, made of rows of tokens."""

from collections.abc import Callable, Sequence

import numpy as np

from odtc.core.errors import DataError, UnsupportedError
from odtc.core.printable import counted
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.text.documents import Document
from odtc.runtime_rpc.data.text.rows import Rows, fed, packed, padded
from odtc.runtime_rpc.data.wanted import Wanted

# Inputs that follow from rows of tokens, and where there are any in these.
MADE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "attention_mask": lambda ids, real: real.astype(np.int64),
    "position_ids": lambda ids, real: np.broadcast_to(np.arange(ids.shape[1]), ids.shape),
}
_MATRIX = 2


def _token_input(wanted: Wanted, where: str) -> Argument:
    """The input that takes numbers of tokens.

    Raises:
        UnsupportedError: nothing shows which it is.
    """
    found = [
        item
        for item in wanted.inputs
        if item.rows and len(item.spec.shape) == _MATRIX and item.spec.name not in MADE
    ]
    names = [item.spec.name for item in wanted.inputs if item not in found]
    others = [name for name in names if name not in MADE]
    if len(found) != 1 or others:
        raise UnsupportedError(
            "the step is not of a language model: text feeds one input of tokens, [batch, length]"
            + (f", and not {', '.join(others)}" if others else ""),
            where=where,
            hint="give the inputs as arrays, in an .npz file",
        )
    return found[0]


def arrays_of(
    documents: Sequence[Document], wanted: Wanted, where: str
) -> tuple[dict[str, np.ndarray], list[str], DataError | None]:
    """The arrays of all samples by the names of inputs and label, and what is to be said of them.

    Returns:
        The arrays; what is to be said; the error of who trains them, where none has a token to
        learn.

    Raises:
        DataError: no document has a token; or the loss ignores no label, and some have to be.
        UnsupportedError: the step is none of a language model.
    """
    item = _token_input(wanted, where)
    length = item.spec.shape[1]
    _check_tokens(documents, item)
    label = None if wanted.inputs_alone else _label(wanted, length, where)
    packs = wanted.options.pack
    rows = (
        fed(documents, length, packs=packs)
        if wanted.inputs_alone
        else (packed if packs else padded)(documents, length)
    )
    if not len(rows.ids):
        raise DataError(
            f"{counted(len(documents), 'document has', 'documents have')} no token",
            where=where,
            hint="provide text that has some",
        )
    made = {
        item.spec.name: make(rows.ids, rows.real)
        for item in wanted.inputs
        if (make := MADE.get(item.spec.name))
    }
    labels = {label.spec.name: _labels(rows, label, where)} if label else {}
    said = _said_of_fed(rows, packs=packs) if label is None else _said(rows, packs=packs)
    if others := dict.fromkeys(name for each in documents for name in each.others):
        said = [*said, f"not taken of documents: {listed([*others])}"]
    is_none = label is not None and not rows.learned.any()
    error = _nothing_to_learn(documents, length, where) if is_none else None
    return {item.spec.name: rows.ids, **made, **labels}, list(said), error


def _check_tokens(documents: Sequence[Document], item: Argument) -> None:
    """Checks that the model knows each token.

    Raises:
        DataError: it does not: the tokenizer is that of another model.
    """
    for each in documents:
        if each.ids.size and each.ids.max() >= item.rows:
            raise DataError(
                f"token {each.ids.max()} is outside [0, {item.rows})",
                where=each.where,
                hint=f"{item.spec.name} takes {item.rows} tokens: give the tokenizer of this "
                "model, to which none was added since the model was exported",
            )


def _nothing_to_learn(documents: Sequence[Document], length: int, where: str) -> DataError:
    """The error of documents of which no token is learned: why, and what helps."""
    has = "has" if len(documents) == 1 else "have"
    within = f"{has} nothing to learn within {length} tokens"
    if all(len(each.ids) <= 1 for each in documents):
        what, hint = f"{within}: none has a token that follows another", "provide longer text"
    elif not any(each.learned[1:].any() for each in documents):
        what = f"{has} nothing to learn: labels of all their tokens are ignored, as are prompts"
        hint = "label the tokens that are to be learned, or give completions that have some"
    else:
        what, hint = within, "provide shorter prompts, or export the model with a longer example"
    count = counted(len(documents), "document", "documents")
    return DataError(f"{count} {what}", where=where, hint=hint)


def takes_tokens(wanted: Wanted) -> bool:
    """Whether a step is one of a language model, which rows of tokens alone feed."""
    try:
        length = _token_input(wanted, "").spec.shape[1]
        if not wanted.inputs_alone:
            _label(wanted, length, "")
    except UnsupportedError:
        return False
    return True


def _label(wanted: Wanted, length: int, where: str) -> Argument:
    labels = wanted.labels
    if len(labels) != 1 or labels[0].classes is None or labels[0].spec.shape[1:] != (length,):
        raise UnsupportedError(
            "the loss is not that of a language model: its label is the token that follows each, "
            f"[batch, {length}]",
            where=where,
            hint="compile with --loss 'cross-entropy{axis=2,ignore-index=-100}'",
        )
    return labels[0]


def _labels(rows: Rows, label: Argument, where: str) -> np.ndarray:
    ignored = label.classes.ignored if label.classes else None
    if ignored is None and not rows.learned.all():
        raise DataError(
            f"{counted(int((~rows.learned).sum()), 'place has', 'places have')} no token to "
            "learn (prompts, and what fills rows up), and the loss ignores no label",
            where=where,
            hint="compile with --loss 'cross-entropy{axis=2,ignore-index=-100}'",
        )
    return np.where(rows.learned, rows.following, 0 if ignored is None else ignored)


def _said(rows: Rows, *, packs: bool) -> Sequence[str]:
    kind = "packed" if packs else "one document each"
    learned = counted(int(rows.learned.sum()), "token is learned", "tokens are learned")
    said = [f"{_size(rows)}, {kind}; {learned}"]
    if rows.cut:
        said.append(
            counted(
                rows.cut,
                "token is left out: its document is longer than a row",
                "tokens are left out: their documents are longer than a row",
            )
        )
    if rows.empty:
        said.append(
            counted(
                rows.empty,
                "row is left out: it has no token to learn",
                "rows are left out: they have no token to learn",
            )
        )
    return said


def _said_of_fed(rows: Rows, *, packs: bool) -> Sequence[str]:
    kind = "packed" if packs else "one document each"
    said = [
        f"{_size(rows)}, {kind}; {counted(int(rows.real.sum()), 'token is fed', 'tokens are fed')}"
    ]
    if rows.cut:
        said.append(
            counted(
                rows.cut,
                "token is not: its document is longer than a row",
                "tokens are not: their documents are longer than a row",
            )
        )
    if rows.empty:
        said.append(
            counted(
                rows.empty,
                "document has no prediction: it has no token",
                "documents have no prediction: they have no token",
            )
        )
    return said


def _size(rows: Rows) -> str:
    return f"{counted(len(rows.ids), 'row', 'rows')} of {rows.ids.shape[1]}"
