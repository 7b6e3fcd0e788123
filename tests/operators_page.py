"""`python -m tests.operators_page` writes docs/operators.md from the tables of operators."""

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import defs

from odtc.frontend.file.onnx_file import OLDEST_OPSET
from odtc.frontend.normalize.resolve import RESOLVED
from odtc.frontend.operators.operator import Level, Operator, always
from odtc.frontend.operators.table import OPERATORS

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"

# What becomes of them before the tables are asked.
BEFORE = {
    "Constant": "Becomes a constant.",
    "Optional": "Optional values are not supported.",
    "OptionalGetElement": "Optional values are not supported.",
    "OptionalHasElement": "Optional values are not supported.",
}

HEAD = """# Operators

Which ONNX operators can be trained. The tables in `frontend/operators`, of which `python -m
tests.operators_page` writes this page, also decide what `odtc check MODEL` says of a model.

- **trainable**: gradients flow through the operator, tested against PyTorch and by finite
  differences. An operator whose results are no floats has none to give, and stands anywhere.
- **forward-only**: it can stand where nothing before it is trained.
- **unsupported**: a model that needs it is refused.

Of ONNX's {total} operators {trainable} are trainable, {forward} forward-only, and {unsupported}
unsupported. The opsets are those in which ONNX {version} has the operator, from {oldest} on: ONNX
converts a model of an older one. What holds of all: shapes are known before the run, and no tensor
is empty. Parameters are float32; other tensors are booleans, floats of 16 to 64 bits, or integers
of 8 to 64.

[conformance.md](conformance.md) has the results of ONNX's own tests.

Where a function bends or ties, its gradient is a choice, and PyTorch chooses by functions that ONNX
has no names for. Files of PyTorch's exporter by `torch.export` name the function beside the node;
where a file does not, an operator has one rule:

| operator | at a bend or a tie | otherwise, where the file names |
|---|---|---|
| Clip | passes at both bounds, as `clamp` | `hardtanh`: passes at neither |
| Clip from 0 to 6 | passes at neither bound, as `relu6` | `clamp`: passes at both |
| Max, Min | both operands get half, as `maximum` | `clamp`: what is clamped gets all |

Others have one rule always: equal elements share what ReduceMax and ReduceMin pass, as in `amax`,
where `max(dim)` and adaptive max pooling give it to the first; MaxPool gives it to the first of a
window, as `max_pool2d` does; TopK to the first of equal elements, as ONNX orders them, where `topk`
may take any. Relu, LeakyRelu, Elu, HardSigmoid, HardSwish, Abs and Sign are as in PyTorch.

| operator | level | opsets | condition |
|---|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    rows = list(_rows())
    counts = {level: sum(row[1] == level for row in rows) for level in Level}
    head = HEAD.format(
        total=len(rows),
        trainable=counts[Level.TRAINABLE],
        forward=counts[Level.FORWARD_ONLY],
        unsupported=counts[Level.UNSUPPORTED],
        oldest=OLDEST_OPSET,
        version=onnx.__version__,
    )
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def condition_of(operator: Operator) -> str:
    """The condition in words: the first line of its docstring."""
    if operator.condition is always:
        return ""
    return (operator.condition.__doc__ or "").partition("\n")[0]


def _rows() -> Iterator[tuple[str, str, str, str]]:
    names = {item.name for item in defs.get_all_schemas_with_history() if not item.domain}
    for name in sorted(names):
        operator = OPERATORS.get(name)
        if name in BEFORE:
            level = Level.TRAINABLE if name == "Constant" else Level.UNSUPPORTED
            yield name, level, _opsets(name) if name == "Constant" else "", BEFORE[name]
        elif operator is None:
            yield name, Level.UNSUPPORTED, "", ""
        elif operator.level is Level.UNSUPPORTED and name in RESOLVED:
            yield name, Level.TRAINABLE, _opsets(name), condition_of(operator)
        elif operator.level is Level.UNSUPPORTED:
            yield name, Level.UNSUPPORTED, "", condition_of(operator)
        else:
            yield name, operator.level, _opsets(name), condition_of(operator)


def _opsets(name: str) -> str:
    """The opsets in which ONNX has the operator, from the oldest that is read."""
    history = [item for item in defs.get_all_schemas_with_history() if item.name == name]
    versions = sorted(item.since_version for item in history if not item.domain)
    gone = [item.since_version for item in history if item.deprecated and not item.domain]
    last = min(gone) - 1 if gone else defs.onnx_opset_version()
    return f"{max(versions[0], OLDEST_OPSET)}–{last}"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
