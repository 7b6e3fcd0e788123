"""Einstein sums."""

from tests.numeric.conftest import node_model, weight


def _einsum(equation, shape, *others):
    parameters = {f"w{at}": weight(*other) for at, other in enumerate(others)}
    return node_model("Einsum", shape, parameters=parameters, equation=equation)


CASES = {
    "Einsum": _einsum("bij,jk->bik", (3, 4, 5), (5, 6)),
    "Einsum-attention": _einsum("bqhd,bkhd->bhqk", (3, 4, 2, 5), (3, 6, 2, 5)),
    "Einsum-diagonal": _einsum("bii->bi", (3, 4, 4)),
    "Einsum-ellipsis": _einsum("...i,ji->...j", (3, 2, 4), (5, 4)),
    "Einsum-broadcast": _einsum("...ij,...jk->...ik", (3, 2, 4, 5), (1, 2, 5, 3)),
    "Einsum-outer": _einsum("bi,j->bij", (3, 4), (5,)),
    "Einsum-implicit": _einsum("b a, a c", (3, 4), (4, 5)),
    "Einsum-sum": _einsum("bijk->bj", (3, 4, 5, 2)),
    "Einsum-three": _einsum("bi,ij,bjk->bk", (3, 4), (4, 5), (3, 5, 6)),
    "Einsum-transpose": _einsum("bij->bji", (3, 4, 5)),
}
