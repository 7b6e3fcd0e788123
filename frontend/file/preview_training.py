"""ONNX's preview of training operators, written in its default operators.

Adagrad, Adam and Momentum are functions of one tensor here, in ONNX's own notation; ONNX inlines
them. They are what ONNX's conformance tests compare; odtc's own optimizers follow PyTorch.
"""

import onnx
from onnx import helper, inliner, parser

DOMAIN = "ai.onnx.preview.training"
_OURS = "odtc.preview.training"

# How many inputs each has per tensor, after the rate and the step count.
_WIDTH = {"Adagrad": 3, "Adam": 4, "Momentum": 3}

_HEAD = f'<opset_import: ["" : 15], domain: "{_OURS}">\n'
_ADAGRAD = """
Adagrad <norm_coefficient, decay_factor, epsilon>
    (R, T, X, G, H) => (X_new, H_new)
{
    norm = Constant <value_float: float = @norm_coefficient> ()
    decay = Constant <value_float: float = @decay_factor> ()
    eps = Constant <value_float: float = @epsilon> ()
    one = Constant <value_float = 1.0> ()
    steps = CastLike (T, R)
    decayed = Mul (steps, decay)
    damping = Add (decayed, one)
    rate = Div (R, damping)
    penalty = Mul (norm, X)
    gradient = Add (penalty, G)
    square = Mul (gradient, gradient)
    H_new = Add (H, square)
    root = Sqrt (H_new)
    divisor = Add (root, eps)
    scaled = Mul (rate, gradient)
    change = Div (scaled, divisor)
    X_new = Sub (X, change)
}
"""
_ADAM = """
Adam <alpha, beta, epsilon, norm_coefficient, norm_coefficient_post>
    (R, T, X, G, V, H) => (X_new, V_new, H_new)
{
    a = Constant <value_float: float = @alpha> ()
    b = Constant <value_float: float = @beta> ()
    eps = Constant <value_float: float = @epsilon> ()
    norm = Constant <value_float: float = @norm_coefficient> ()
    post = Constant <value_float: float = @norm_coefficient_post> ()
    one = Constant <value_float = 1.0> ()
    zero = Constant <value_int = 0> ()
    penalty = Mul (norm, X)
    gradient = Add (penalty, G)
    new_a = Sub (one, a)
    old_v = Mul (a, V)
    new_v = Mul (new_a, gradient)
    V_new = Add (old_v, new_v)
    new_b = Sub (one, b)
    square = Mul (gradient, gradient)
    old_h = Mul (b, H)
    new_h = Mul (new_b, square)
    H_new = Add (old_h, new_h)
    root = Sqrt (H_new)
    divisor = Add (root, eps)
    has_steps = Greater (T, zero)
    steps = CastLike (T, R)
    power_a = Pow (a, steps)
    power_b = Pow (b, steps)
    left_a = Sub (one, power_a)
    left_b = Sub (one, power_b)
    left_root = Sqrt (left_b)
    unbiased = Div (left_root, left_a)
    correction = Where (has_steps, unbiased, one)
    rate = Mul (R, correction)
    direction = Div (V_new, divisor)
    change = Mul (rate, direction)
    moved = Sub (X, change)
    kept = Sub (one, post)
    X_new = Mul (kept, moved)
}
"""
_MOMENTUM = """
Momentum <alpha, beta, norm_coefficient>
    (R, T, X, G, V) => (X_new, V_new)
{
    a = Constant <value_float: float = @alpha> ()
    b = Constant <value_float: float = @beta> ()
    norm = Constant <value_float: float = @norm_coefficient> ()
    one = Constant <value_float = 1.0> ()
    zero = Constant <value_int = 0> ()
    penalty = Mul (norm, X)
    gradient = Add (penalty, G)
    has_steps = Greater (T, zero)
    share = Where (has_steps, b, one)
    old_v = Mul (a, V)
    new_v = Mul (share, gradient)
    V_new = Add (old_v, new_v)
    direction = Identity (V_new)
    change = Mul (R, direction)
    X_new = Sub (X, change)
}
"""
_AHEAD = "ahead = Mul (a, V_new)\n    direction = Add (gradient, ahead)"
_NESTEROV = _MOMENTUM.replace("Momentum", "Nesterov").replace(
    "direction = Identity (V_new)", _AHEAD
)


def without_training_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its optimizer nodes written out; itself where it has none."""
    if not any(_is_ours(node) for node in model.graph.node):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    for node in model.graph.node:
        changed.graph.node.extend(_calls(node) if _is_ours(node) else [node])
    texts = (_ADAGRAD, _ADAM, _MOMENTUM, _NESTEROV)
    changed.functions.extend(parser.parse_function(_HEAD + text) for text in texts)
    if not any(item.domain in ("", "ai.onnx") for item in changed.opset_import):
        changed.opset_import.append(helper.make_opsetid("", 15))
    changed.opset_import.append(helper.make_opsetid(_OURS, 1))
    kept = [item for item in changed.opset_import if item.domain != DOMAIN]
    del changed.opset_import[:]
    changed.opset_import.extend(kept)
    return inliner.inline_local_functions(changed, convert_version=True)


def _is_ours(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in _WIDTH


def _calls(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """One call for each tensor: inputs and outputs come as all Xs, then all Gs, and so on."""
    shared, inputs = list(node.input[:2]), list(node.input[2:])
    count = len(inputs) // _WIDTH[node.op_type]
    schema = onnx.defs.get_schema(node.op_type, 1, DOMAIN)
    # The inliner leaves an attribute out that has its default value.
    given = {item.name: item for item in node.attribute}
    attributes = {
        name: helper.get_attribute_value(given.get(name, attribute.default_value))
        for name, attribute in schema.attributes.items()
    }
    nesterov = attributes.pop("mode", b"standard") == b"nesterov"
    return [
        helper.make_node(
            "Nesterov" if nesterov else node.op_type,
            [*shared, *inputs[at::count]],
            list(node.output[at::count]),
            domain=_OURS,
            **attributes,
        )
        for at in range(count)
    ]
