"""docs/conformance.md, from the outcomes of all tests."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from tests.conformance.worker import Kind, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"

GROUPS = {
    "node": "single operators, and their expansions into others",
    "simple": "small models: gradients, sequences, shapes",
    "real": "image classifiers, their weights made by formula",
    "pytorchconverted": "modules of an old PyTorch, opset 6",
    "pytorchoperator": "expressions of an old PyTorch, opset 6",
}
TRAINING = re.compile(
    r"/test_(adagrad|adam|gradient_of|momentum|nesterov|nllloss|sce_|training_dropout)"
    r"|_training_mode"
)
_NODE = re.compile(r"\((?P<op>\w+)\): unsupported: (?P<reason>.+)")
_DETAIL = re.compile(r"'[^']*'|\[[^\]]*\]|-?\b\d+(\.\d+)?\b")
# Why a test is refused that is not of tensors of real numbers.
_FOREIGN = re.compile(
    r"array of object|is a (sequence|optional)|of another domain|of the domain"
    r"|dtype u?int[24]\b|dtype float[48]_|float8|float4|String|Regex"
)
_OPERATOR = "the operator is not supported in this version"

HEAD = """# ONNX conformance

`odtc.onnx_backend` runs a model forward on this machine through odtc's importer, kernels and build,
by ONNX's own backend interface. `make conformance` runs the tests that ONNX {version} brings, and
writes this page. A test is *refused* where odtc says that it cannot run the model, and why; *wrong*
is another value than ONNX expects, and a *fault* any other end.

Programs have static shapes. Where the size of a result, or how an operator works, depends on the
value of an input, such as the axes of a reduction, the program is compiled for that value. So it
was with {bound} of the tests that passed. With {folded} of these all inputs were such values: what
they compute is known when they are compiled, by ONNX's reference implementation, and shows nothing
of odtc's kernels.

Of the node tests {foreign} are refused for what is no tensor of real numbers of at least 8 bits:
strings, sequences, optionals, floats of 8 or 4 bits, integers of 4 or 2, other domains. Of the
{real} others {share:.1%} pass.
"""


def write_page(found: Mapping[str, Outcome]) -> None:
    """Writes the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(page(found)), encoding="utf-8")


def page(found: Mapping[str, Outcome]) -> list[str]:
    """Its lines."""
    passed = [outcome for outcome in found.values() if outcome.kind is Kind.PASSED]
    nodes = _of_group(found, "node")
    foreign = sum(bool(_FOREIGN.search(each.reason)) for each in nodes)
    real = len(nodes) - foreign
    head = HEAD.format(
        version=onnx.__version__,
        bound=sum(bool(outcome.bound) for outcome in passed),
        folded=sum(outcome.is_folded for outcome in passed),
        foreign=foreign,
        real=real,
        share=sum(each.kind is Kind.PASSED for each in nodes) / max(real, 1),
    )
    return [
        head,
        *_table(
            ["group", "what it holds", *map(str, Kind)],
            [[group, text, *_by_kind(_of_group(found, group))] for group, text in GROUPS.items()],
        ),
        "## Training\n",
        "Optimizers, gradients, losses, batch normalisation and dropout in training mode.\n",
        *_table(["test", "outcome"], _training(found)),
        "## What is refused, and why\n",
        *_table(["tests", "reason", "operators"], _refused(found)),
        "## Wrong values and faults\n",
        *_failures(found),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return [*("| " + " | ".join(map(str, row)) + " |" for row in cells), ""]


def _of_group(found: Mapping[str, Outcome], group: str) -> list[Outcome]:
    return [outcome for name, outcome in found.items() if name.startswith(f"{group}/")]


def _by_kind(outcomes: Sequence[Outcome]) -> list[int]:
    counts = Counter(outcome.kind for outcome in outcomes)
    return [counts[kind] for kind in Kind]


def _training(found: Mapping[str, Outcome]) -> list[tuple[str, str]]:
    """Tests of training; those of one operator that pass are counted, not listed."""
    stems: dict[str, list[str]] = defaultdict(list)
    for name in sorted(found):
        match = TRAINING.search(name)
        if match:
            stems[(match[1] or "batchnorm").rstrip("_")].append(name)
    rows = []
    for stem, names in stems.items():
        passed = sum(found[name].kind is Kind.PASSED for name in names)
        rows.append((f"{stem} ({len(names)})", f"{passed} passed"))
        rows += [
            (name, f"{found[name].kind}: {_reasons(found[name])[0][1]}")
            for name in names
            if found[name].kind is not Kind.PASSED
        ]
    return rows


def _refused(found: Mapping[str, Outcome]) -> list[tuple[int, str, str]]:
    """Reasons, the most frequent first, with the operators that they are about."""
    counts: Counter[str] = Counter()
    operators: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in found.values():
        if outcome.kind is Kind.REFUSED:
            about = _reasons(outcome)
            counts.update({reason for _, reason in about})
            for operator, reason in about:
                operators[reason][operator] += 1
    return [
        (count, reason, ", ".join(sorted(filter(None, operators[reason]))))
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _reasons(outcome: Outcome) -> list[tuple[str, str]]:
    """Operator and reason of each node that was refused; what varies in a reason is left out."""
    lines = outcome.reason.splitlines() or [""]
    nodes = [match for line in lines if (match := _NODE.search(line))]
    if not nodes:
        return [("", _plain(lines[0].partition(": ")[2] or lines[0]))]
    return sorted({(match["op"], _plain(match["reason"])) for match in nodes})


def _plain(reason: str) -> str:
    if reason.startswith("operator ") and "not supported in this version" in reason:
        return _OPERATOR
    if reason.startswith("operator ") and "is of the domain" in reason:
        return "the operator is of another domain than ONNX's default"
    dtype = re.match(r"the dtype (\w+) of", reason)
    if dtype:
        return f"the dtype {dtype[1]}"
    return _DETAIL.sub("…", reason).replace("|", "\\|")


def _failures(found: Mapping[str, Outcome]) -> list[str]:
    bad = [name for name in sorted(found) if found[name].kind in (Kind.WRONG, Kind.FAULT)]
    if not bad:
        return ["None.", ""]
    rows = [(name, found[name].kind, _plain(found[name].reason.splitlines()[0])) for name in bad]
    return _table(["test", "outcome", "first line"], rows)
