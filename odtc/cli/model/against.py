"""Output of `odtc check --against`: the fate of a module's weights in an ONNX file."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json
from odtc.core.errors import ExitCode

if TYPE_CHECKING:
    from odtc.frontend.weights.fates import Match


def compare(model: str, weights: str, *, as_json: bool, everything: bool) -> int:
    """Prints the comparison; the exit code says whether something was lost.

    Args:
        model: path of the ONNX file.
        weights: path of the state dict.
        as_json: print it for programs.
        everything: list equal tensors, too.
    """
    from odtc.against import match_weights
    from odtc.frontend.weights.fates import LOST

    matches = match_weights(model, weights)
    lost = any(match.fate in LOST for match in matches)
    if as_json:
        emit_json(_data(model, weights, matches, lost=lost))
    else:
        emit(*_lines(model, weights, matches, everything=everything))
    return ExitCode.PARITY if lost else ExitCode.OK


def _data(model: str, weights: str, matches: Sequence["Match"], *, lost: bool) -> dict[str, Any]:
    from odtc.frontend.weights.matching import counts

    return {
        "model": model,
        "weights": weights,
        "lost": lost,
        "counts": counts(matches),
        "tensors": [
            {"name": m.name, "fate": m.fate.value, "tensor": m.tensor, "detail": m.detail}
            for m in matches
        ],
    }


def _lines(
    model: str, weights: str, matches: Sequence["Match"], *, everything: bool
) -> Iterator[str]:
    from odtc.frontend.weights.fates import LOST, Fate
    from odtc.frontend.weights.matching import counts

    found = ", ".join(f"{number} {fate}" for fate, number in counts(matches).items())
    yield f"{model} against {weights}: {found or 'no float tensors'}"
    for fate in Fate:
        listed = [match for match in matches if match.fate is fate]
        if listed and (everything or fate is not Fate.EQUAL):
            yield f"{fate.value}{', lost' if fate in LOST else ''}:"
            yield from (f"  {match}" for match in listed)
