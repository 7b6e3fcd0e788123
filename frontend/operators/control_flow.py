"""Control flow, sequences and optionals: what is left of them could not be resolved, and says why.

`frontend/normalize/resolve.py` has put other operators in the place of all that are static.
"""

from odtc.frontend.normalize.control.branches import branch_refusal
from odtc.frontend.normalize.control.trips import loop_refusal
from odtc.frontend.operators.operator import Level, Node, Operator

_FOUND = "what it searches must be constant: how many elements it finds depends on that"
_OPTIONAL = "only optionals that surely hold a tensor or a sequence, or nothing, are supported"
_SEQUENCE = "only sequences whose positions and lengths are constant are supported"


def _refused(reason: str) -> Operator:
    def condition(_: Node) -> str:
        return reason

    condition.__doc__ = f"{reason[0].upper()}{reason[1:]}."
    return Operator(Level.UNSUPPORTED, condition=condition)


def _loop(node: Node) -> str:
    """The number of steps must be constant."""
    return loop_refusal(node.graph, node.proto)


def _if(node: Node) -> str:
    """Both branches must give the same shapes, where the condition is not constant."""
    return branch_refusal(node.graph, node.proto)


OPERATORS: dict[str, Operator] = {
    "Compress": _refused("which elements it keeps must be constant"),
    "ConcatFromSequence": _refused(_SEQUENCE),
    "If": Operator(Level.UNSUPPORTED, condition=_if),
    "Loop": Operator(Level.UNSUPPORTED, condition=_loop),
    "NonMaxSuppression": _refused(_FOUND),
    "NonZero": _refused(_FOUND),
    "Optional": _refused(_OPTIONAL),
    "OptionalGetElement": _refused(_OPTIONAL),
    "OptionalHasElement": _refused(_OPTIONAL),
    "Scan": _refused("the number of steps must be known, and the opset 9 or newer"),
    "SequenceAt": _refused(_SEQUENCE),
    "SequenceConstruct": _refused(_SEQUENCE),
    "SequenceEmpty": _refused(_SEQUENCE),
    "SequenceErase": _refused(_SEQUENCE),
    "SequenceInsert": _refused(_SEQUENCE),
    "SequenceLength": _refused(_SEQUENCE),
    "SplitToSequence": _refused(_SEQUENCE),
    "Unique": _refused(_FOUND),
}
