"""Notes for the user on tensors whose kind is doubtful."""

from collections.abc import Iterator, Mapping

from odtc.frontend.weights.finding import Finding, Kind

# Names in one note; `odtc check --all` lists all of them.
_MOST_NAMES = 8


def notes_of(findings: Mapping[str, Finding]) -> Iterator[str]:
    """One note for each reason, with the tensors that it holds of, and the option against it."""
    alike: dict[Finding, list[str]] = {}
    for name, found in findings.items():
        if found.is_doubtful:
            alike.setdefault(found, []).append(name)
    for found, names in alike.items():
        if found.kind is Kind.PARAMETER:
            yield f"{listed(names)}: trained, as {found.reason}; --freeze {names[0]} freezes it"
        else:
            yield f"{listed(names)}: not trained: {found.reason}; --train {names[0]} trains it"


def listed(names: list[str]) -> str:
    """Names in a row, the first ones of many."""
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
