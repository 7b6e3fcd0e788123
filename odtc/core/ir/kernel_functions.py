"""Functions that expressions of kernels may call: each has code on every kind of target.

TVM knows more than its code generators do: vectors of some it refuses, of others SPIR-V has none.
`tests/backends/test_kernel_functions.py` lowers each, for all families.
"""

# Of float32, by the names of TVM's intrinsics.
MATHS = frozenset(
    {"prim.ceil", "prim.log2"}.union(
        f"tirx.{name}"
        for name in (
            *"acos acosh asin asinh atan atan2 atanh cos cosh erf exp exp2 fabs floor log".split(),
            *"log1p nearbyint pow round rsqrt sigmoid sin sinh sqrt tan tanh trunc".split(),
        )
    )
)
# Reads, choices, tests and bits.
OTHERS = frozenset(
    {"prim.if_then_else", "te.tensor_load"}.union(
        f"tirx.{name}"
        for name in (
            *"bitwise_and bitwise_not bitwise_or bitwise_xor isnan likely".split(),
            *"popcount reinterpret shift_left shift_right".split(),
        )
    )
)
FUNCTIONS = MATHS | OTHERS
