"""Reductions over axes."""

from tests.numeric.conftest import IMAGE, MATRIX, ints, node_model, text_model

CUBE = (3, 4, 5)
REDUCED = "L1 L2 LogSumExp Max Mean Min Prod Sum SumSquare".split()

CASES = {
    **{
        f"Reduce{r}": node_model(f"Reduce{r}", IMAGE, axes=[2, 3], keepdims=0, opset=11)
        for r in REDUCED
    },
    **{
        f"Reduce{r}-axes": text_model(
            f"a = Reduce{r} (h, axes) y = Mul (a, h)",
            CUBE,
            constants={"axes": ints(-2)},
            opset=18,
        )
        for r in REDUCED
    },
    **{
        f"Reduce{r}-all": text_model(
            f"a = Reduce{r} <keepdims=0> (h) y = Mul (a, h)", (3, 4), opset=18
        )
        for r in REDUCED
    },
    "ReduceLogSum": node_model("ReduceLogSum", CUBE, before="Exp", axes=[1], opset=11),
    "ReduceMean-none": node_model("ReduceMean", MATRIX, noop_with_empty_axes=1, opset=18),
    "ReduceSum-none": node_model(
        "ReduceSum", MATRIX, constants={"a": ints()}, noop_with_empty_axes=1
    ),
    "ReduceSum-empty": text_model(
        "a = ReduceSum (h, e) y = Mul (a, h)", MATRIX, constants={"e": ints()}
    ),
}
