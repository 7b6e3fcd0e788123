"""The plan of layouts that costs least: in time, and in bytes where these have a price.

A variable for each operator is its form, and one for each tensor the set of layouts in which it is
there: so that a copy counts once for all its readers. Tables hold the costs: of an operator by
itself; of a tensor with its maker, which makes it in one layout and is followed by copies; of a
tensor with each reader, which costs nothing if its layout is there.
"""

from itertools import combinations

import numpy as np

from odtc.passes.layout.problem import LayoutProblem, LayoutSolution, Tensor, made_in
from odtc.passes.layout.tables import MOST, Table, least


def solve(problem: LayoutProblem, most: int = MOST) -> LayoutSolution:
    """The best plan; with a bound below it, where tables of `most` numbers do not prove it best."""
    operators, tensors, price = len(problem.operators), problem.tensors, problem.price
    sets = [_sets(tensor.layouts) for tensor in tensors]
    sizes = [*(len(each.forms) for each in problem.operators), *map(len, sets)]
    tables = [
        Table((number,), np.array([form.seconds for form in operator.forms]))
        for number, operator in enumerate(problem.operators)
    ]
    for number, tensor in enumerate(tensors):
        variable = operators + number
        if number not in problem.makers:
            copies = [_made_so(tensor, price, tensor.layouts[0], each) for each in sets[number]]
            tables.append(Table((variable,), np.array(copies)))
        else:
            maker, place = problem.makers[number]
            made = [form.writes[place] for form in problem.operators[maker].forms]
            copies = [
                [_made_so(tensor, price, layout, each) for each in sets[number]] for layout in made
            ]
            tables.append(Table((maker, variable), np.array(copies)))
        for reader, place in problem.readers[number]:
            wanted = [form.reads[place] for form in problem.operators[reader].forms]
            there = np.array([[layout in each for each in sets[number]] for layout in wanted])
            tables.append(Table((reader, variable), np.where(there, 0.0, np.inf)))
    values, bound = least(sizes, tables, most)
    return solution_of(problem, tuple(values[:operators]), bound)


def solution_of(problem: LayoutProblem, forms: tuple[int, ...], bound: float) -> LayoutSolution:
    """A plan: its operators, and a copy for each layout that a tensor is not made in."""
    seconds = sum(
        each.forms[taken].seconds for each, taken in zip(problem.operators, forms, strict=True)
    )
    nbytes = 0
    for number, tensor in enumerate(problem.tensors):
        wanted = {
            problem.operators[reader].forms[forms[reader]].reads[place]
            for reader, place in problem.readers[number]
        }
        made = made_in(problem, forms, number)
        seconds += tensor.seconds_of(made, wanted | {made})
        nbytes += tensor.nbytes_of(wanted | {made})
    return LayoutSolution(forms, seconds, nbytes, seconds + problem.price * nbytes, bound)


def _made_so(tensor: Tensor, price: float, made: str, there: frozenset[str]) -> float:
    """Returns a tensor's cost in these layouts: infinite without the one that it is made in."""
    if made not in there:
        return np.inf
    return tensor.seconds_of(made, there) + price * tensor.nbytes_of(there)


def _sets(layouts: tuple[str, ...]) -> list[frozenset[str]]:
    """All sets of layouts but the empty one."""
    sizes = range(1, len(layouts) + 1)
    return [frozenset(each) for size in sizes for each in combinations(layouts, size)]
