"""What a language model in an ONNX file says: the likeliest token, again and again.

Rows of a model whose length is fixed are filled up at their end, where a causal model does not
look; once a row is full, its first tokens give way.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from odtc.core.errors import ModelError, UnsupportedError
from odtc.frontend.file.onnx_file import load_model
from odtc.runtime_rpc.data.text.feed import MADE
from odtc.runtime_rpc.export.engine import InferenceEngine, brief, load_engine

_INTEGERS = {6: np.int32, 7: np.int64}  # As ONNX numbers them.
_SCORES_RANK = 3


@dataclass(frozen=True)
class LanguageModel:
    """A language model that is loaded.

    Attributes:
        engine: that runs it.
        tokens: the input that takes numbers of tokens, `[1, length]`.
        dtypes: of all inputs by name; those that are no tokens follow from these.
        length: tokens of a row; None where any number will do.
        scores: the output, `[1, length, words]`.
    """

    engine: InferenceEngine
    tokens: str
    dtypes: dict[str, type]
    length: int | None
    scores: str

    def next_token(self, ids: Sequence[int]) -> int:
        """The likeliest token after some.

        Raises:
            ModelError: the model cannot be run so, or does not give scores of words.
        """
        seen = np.asarray(ids[-self.length :] if self.length else ids)
        row = np.pad(seen, (0, (self.length or len(seen)) - len(seen)))[None]
        real = np.arange(row.shape[1])[None] < len(seen)
        made = {name: make(row, real) for name, make in MADE.items()}
        feeds = {
            name: (row if name == self.tokens else made[name]).astype(dtype)
            for name, dtype in self.dtypes.items()
        }
        try:
            scores = self.engine.run(feeds)[self.scores]
        except Exception as error:  # Each library has exceptions of its own.
            raise ModelError(f"{self.engine.name} cannot run the model: {brief(error)}") from error
        if np.ndim(scores) != _SCORES_RANK or scores.shape[:2] != row.shape:
            raise ModelError(
                f"the output {self.scores} has shape {list(np.shape(scores))}, not the "
                "shape of word scores, [1, length, words]",
                hint="give a model whose first output is its logits",
            )
        return int(scores[0, len(seen) - 1].argmax())

    def continued(self, ids: Sequence[int], count: int, end: int | None) -> Iterator[int]:
        """The tokens that follow some, the likeliest each.

        Args:
            ids: at least one.
            count: how many at most.
            end: the token that ends a text, which is not given; None for none.

        Raises:
            ModelError: the model cannot be run so.
        """
        known = list(ids)
        for _ in range(count):
            token = self.next_token(known)
            if token == end:
                return
            known.append(token)
            yield token


def load_language_model(path: str | os.PathLike[str]) -> LanguageModel:
    """Loads a model by onnxruntime where it is installed, else by ONNX's reference.

    Raises:
        ModelError: the file cannot be read.
        UnsupportedError: it is none of a language model, or nothing runs it.
    """
    graph = load_model(path, in_file=True).graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = {
        value.name: value.type.tensor_type for value in graph.input if value.name not in stored
    }
    of_tokens = [name for name in inputs if name not in MADE]
    kinds = {name: _INTEGERS.get(kind.elem_type) for name, kind in inputs.items()}
    if len(of_tokens) != 1 or not all(kinds.values()):
        raise UnsupportedError(
            f"the model is not a language model: its inputs are {', '.join(inputs) or 'none'}",
            where=os.fspath(path),
            hint="give one that takes tokens, [batch, length], and nothing that does not follow",
        )
    dims = inputs[of_tokens[0]].shape.dim
    if len(dims) != 2 or (dims[0].dim_value or 1) != 1:
        raise UnsupportedError(
            f"the input {of_tokens[0]} takes no single row of tokens, [1, length]",
            where=os.fspath(path),
            hint="export the model with a batch that is not fixed",
        )
    engine, reasons = load_engine(path)
    if engine is None:
        raise UnsupportedError(
            f"nothing runs the model: {'; '.join(reasons)}", where=os.fspath(path)
        )
    dtypes = {name: kind for name, kind in kinds.items() if kind}
    length = dims[1].dim_value or None
    return LanguageModel(engine, of_tokens[0], dtypes, length, graph.output[0].name)
