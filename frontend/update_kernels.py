"""In-place update kernels of the optimizers, as PrimFuncs.

`call_tir_inplace` on a parameter of the Relax function changes the caller's tensor, so no second
copy of a parameter ever exists.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

# From the elements at one index, by argument name, to the new values of those that change, in the
# order in which they are stored: a later one may use the new value of an earlier one.
Element = dict[str, ir.Expr]
Rule = Callable[[Element, Callable[[str, ir.Expr], ir.Expr]], None]


def sgd_kernel(shape: tuple[int, ...], momentum: float, weight_decay: float) -> tirx.PrimFunc:
    """`(w, [v], g, lr)`: float32 tensors of `shape`, and the learning rate as a scalar."""

    def update(at: Element, store: Callable[[str, ir.Expr], ir.Expr]) -> None:
        step = at["g"] + _f32(weight_decay) * at["w"] if weight_decay else at["g"]
        if momentum:
            step = store("v", _f32(momentum) * at["v"] + step)
        store("w", at["w"] - at["lr"] * step)

    state = ["v"] if momentum else []
    return _elementwise("sgd", shape, ["w", *state, "g"], ["lr"], update)


def assign_kernel(shape: tuple[int, ...]) -> tirx.PrimFunc:
    """`(old, new)`: copies `new` over `old`, float32 tensors of `shape`."""
    return _elementwise("assign", shape, ["old", "new"], [], lambda at, put: put("old", at["new"]))


def _f32(value: float) -> ir.Expr:
    return tirx.const(value, "float32")


def _elementwise(
    name: str, shape: tuple[int, ...], tensors: Sequence[str], scalars: Sequence[str], rule: Rule
) -> tirx.PrimFunc:
    """A kernel over tensors of one shape of any rank: TVMScript has no loops of unknown rank."""
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name(name)
            buffers = {n: T.arg(n, T.buffer(shape, "float32")) for n in tensors}
            buffers |= {n: T.arg(n, T.buffer((), "float32")) for n in scalars}
            with T.grid(*shape) as loops, T.sblock("update"):
                axes = [
                    T.axis.spatial(size, loop)
                    for size, loop in zip(shape, _as_list(loops), strict=True)
                ]
                index = {n: axes if n in tensors else [] for n in buffers}

                def store(target: str, value: ir.Expr) -> ir.Expr:
                    T.buffer_store(buffers[target], value, index[target])
                    return tirx.BufferLoad(buffers[target], index[target])

                rule({n: tirx.BufferLoad(buffers[n], index[n]) for n in buffers}, store)
        return builder.get()


def _as_list(loops: object) -> list[tirx.Var]:
    """The builder hands out a bare variable where there is one loop only."""
    return [loops] if isinstance(loops, tirx.Var) else list(loops)  # type: ignore[call-overload]
