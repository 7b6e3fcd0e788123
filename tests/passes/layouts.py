"""Problems of layouts that tests draw, and the best plan by trying all of them."""

from itertools import product

from hypothesis import strategies as st

from odtc.passes.layout.problem import LayoutProblem, OperatorForm, OperatorNode, Tensor

LAYOUTS = ("NCHW", "NHWC", "CNHW")


@st.composite
def problems(draw, most_operators: int = 6) -> LayoutProblem:
    """Small graphs: each operator reads some tensors made before it, and makes one or two."""
    cost = st.integers(0, 20).map(float)
    count = draw(st.integers(1, len(LAYOUTS)))

    def tensor(name: str) -> Tensor:
        return Tensor(name, LAYOUTS[:count], draw(cost), draw(st.integers(0, 9)), draw(cost))

    tensors = [tensor(f"x{n}") for n in range(draw(st.integers(1, 2)))]
    operators = []
    for number in range(draw(st.integers(1, most_operators))):
        reads = draw(st.lists(st.integers(0, len(tensors) - 1), min_size=1, max_size=3))
        writes = range(len(tensors), len(tensors) + draw(st.integers(1, 2)))
        tensors += [tensor(f"t{n}") for n in writes]
        layout = st.sampled_from(LAYOUTS[:count])
        forms = tuple(
            OperatorForm(
                f"form {n}",
                tuple(draw(layout) for _ in reads),
                tuple(draw(layout) for _ in writes),
                draw(cost),
            )
            for n in range(draw(st.integers(1, 3)))
        )
        operators.append(OperatorNode(f"op{number}", tuple(reads), tuple(writes), forms))
    return LayoutProblem(tuple(tensors), tuple(operators), float(draw(st.integers(0, 3))))


def best_by_trying(problem: LayoutProblem) -> float:
    """The least cost of all plans, each played."""
    choices = product(*(range(len(each.forms)) for each in problem.operators))
    return min(cost_of(problem, choice) for choice in choices)


def cost_of(problem: LayoutProblem, choice: tuple[int, ...]) -> float:
    """Returns the cost of a plan: its seconds, and its bytes at their price."""
    seconds, nbytes = played(problem, choice)
    return seconds + problem.price * nbytes


def played(problem: LayoutProblem, choice: tuple[int, ...]) -> tuple[float, int]:
    """Seconds of a plan, with copies of layouts that are not there; and bytes more than usual."""
    there = {(number, each.layouts[0]) for number, each in enumerate(problem.tensors)}
    for operator in problem.operators:
        there -= {(tensor, layout) for tensor in operator.writes for layout in LAYOUTS}
    total = 0.0
    for operator, taken in zip(problem.operators, choice, strict=True):
        form = operator.forms[taken]
        total += form.seconds
        for pair in dict.fromkeys(zip(operator.reads, form.reads, strict=True)):
            if pair not in there:
                tensor = problem.tensors[pair[0]]
                own = [layout for number, layout in there if number == pair[0]]
                total += tensor.seconds + (own == [tensor.layouts[0]]) * tensor.written
                there.add(pair)
        there |= set(zip(operator.writes, form.writes, strict=True))
    nbytes = 0
    for number, tensor in enumerate(problem.tensors):
        own = {layout for each, layout in there if each == number}
        if own != {tensor.layouts[0]}:
            nbytes += tensor.nbytes * (len(own) if tensor.written else len(own) - 1)
    return total, nbytes
