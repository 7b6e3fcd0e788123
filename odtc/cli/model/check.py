"""`odtc check`: whether a model can be trained, and which nodes stand in the way.

It takes the way of `odtc compile` up to the training graph, so that both refuse the same.
"""

import argparse
import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odtc.backends.targets import parse_target
from odtc.cli.compiling.step_options import add_step_options, step_options
from odtc.cli.console import aligned, emit, emit_json, readable_bytes
from odtc.cli.model.against import compare
from odtc.cli.options import add_json_option
from odtc.cli.switches import Switch
from odtc.core.errors import ExitCode
from odtc.core.process.quick import without_collections

if TYPE_CHECKING:
    from odtc.driver.examination import Report
    from odtc.frontend.coverage import NodeReport


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "check",
        help="check whether a model can be trained",
        description="Check whether a model can be trained, and which nodes prevent it: "
        "everything that `odtc compile` checks with the same options before it compiles.",
        epilog="A symbolic batch is taken as 1. Exits with 4 if nodes cannot be trained, "
        "otherwise as `odtc compile` would. With --against, exits with 14 if the file lost "
        "tensors of the state dict, because they are merged, torn apart, folded, different or "
        "missing.",
    )
    add_step_options(parser)
    parser.add_argument("--all", action=Switch, help="list all nodes and parameters")
    parser.add_argument(
        "--against",
        metavar="WEIGHTS",
        help="only compare the model's tensors by name and value with a state dict, in a "
        ".safetensors file or one written by torch.save",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the report."""
    if args.against is not None:
        return compare(args.model, args.against, as_json=args.json, everything=args.all)
    # Imported here, for a quick `--help`.
    from odtc.driver.examination import examine

    with without_collections():
        report = examine(args.model, parse_target(args.target), step_options(args))
    if args.json:
        emit_json(_data(report, everything=args.all))
    else:
        emit(*_lines(report, everything=args.all))
    return ExitCode.OK if report.trainable else ExitCode.UNSUPPORTED


def _operators(report: "Report") -> list[tuple[str, int, str]]:
    """Operator type, number of nodes and level, the most frequent first."""
    found = Counter((node.op_type, node.level.value) for node in report.nodes)
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [(op_type, number, level) for (op_type, level), number in ranked]


def _levels(report: "Report") -> dict[str, int]:
    from odtc.frontend.operators.operator import Level

    found = Counter(node.level for node in report.nodes)
    return {level.value: found[level] for level in Level}


def _listed(report: "Report", everything: bool) -> list["NodeReport"]:
    """All nodes, or those with something to say: a node without a reason is trainable."""
    return [node for node in report.nodes if everything or node.reason]


def _tensors(report: "Report") -> list[dict[str, str]]:
    """Every float tensor of the file, what it is, and where that is known from."""
    return [
        {"name": name, "kind": found.kind, "known": found.known, "reason": found.reason}
        for name, found in report.findings.items()
    ]


def _data(report: "Report", everything: bool) -> dict[str, Any]:
    operators = _operators(report)
    return {
        "model": report.model,
        "trainable": report.trainable,
        "levels": _levels(report),
        "operators": [{"op_type": t, "count": n, "level": level} for t, n, level in operators],
        "nodes": [dataclasses.asdict(node) for node in _listed(report, everything)],
        "parameters": {
            "count": len(report.parameters),
            "bytes": sum(spec.nbytes for spec in report.parameters),
            **({"names": [spec.name for spec in report.parameters]} if everything else {}),
        },
        **({"tensors": _tensors(report)} if everything else {}),
        "notes": list(report.notes),
    }


def _lines(report: "Report", everything: bool) -> list[str]:
    blocking = sum(node.blocks for node in report.nodes)
    blocked = f"cannot be trained: {blocking} of {len(report.nodes)} nodes block it"
    verdict = blocked if blocking else "can be trained"
    levels = ", ".join(f"{number} {level}" for level, number in _levels(report).items())
    total = sum(spec.nbytes for spec in report.parameters)
    nodes = [
        (node.node, node.level, "blocks" if node.blocks else "", node.reason)
        for node in _listed(report, everything)
    ]
    names = [(str(spec),) for spec in report.parameters] if everything else []
    others = [
        (each["name"], each["kind"], f"{each['known']}: {each['reason']}")
        for each in (_tensors(report) if everything else ())
        if each["kind"] != "parameter"
    ]
    return [
        f"{report.model} {verdict}",
        f"nodes: {levels}",
        *_indented(nodes),
        "operators:",
        *_indented(_operators(report)),
        f"trainable parameters: {len(report.parameters)}, {readable_bytes(total)}",
        *_indented(names),
        *(["other float tensors:", *_indented(others)] if others else ()),
        *(f"note: {note}" for note in report.notes),
    ]


def _indented(rows: Sequence[Sequence[object]]) -> list[str]:
    return [f"  {line}" for line in aligned(rows)]
