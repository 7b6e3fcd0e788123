"""Causes of errors of pipelines of passes."""

from tests.errors.causes import Cause


def listed(*options: str) -> Cause:
    """`odtc opt --list`, which needs no model."""
    return lambda _: ["opt", "--list", "--target", "android-vulkan", *options]


def opt(*options: str) -> Cause:
    """`odtc opt` of the digits model."""
    return lambda place: ["opt", str(place.digits.model), "--batch", "2", *options]


OF_PASSES: dict[str, Cause] = {
    "passes of which one is none": listed("--passes", "join-reshapes,absorb-transpos"),
    "passes that are no text of any": listed("--passes", "join-reshapes,,fold-constants"),
    "pass with another option": listed("--passes", "fuse-named{mots=3}"),
    "pass with a value of another kind": listed("--passes", "fuse-named{most=few}"),
    "pass without its option": listed("--passes", "schedule-cpu"),
    "pass of another target": listed("--passes", "update-rows"),
    "pass without passes in it": listed("--passes", "fuse-named(keep-nan)"),
    "pass to stop after that does not run": listed("--stop-after", "write-over"),
    "pass to print after that is none": opt("--print-after", "fuse-name"),
    "passes without a model": lambda _: ["opt"],
    "passes in an order that cannot run": opt("--passes", "join-reshapes,order-calls"),
    "passes of a step with a budget": opt("--offload"),
    "module over its model": lambda place: [
        *("opt", str(place.digits.model), "-o", str(place.digits.model)),
    ],
    "list of passes in a file of a module": listed("-o", "ir.txt"),
    "list of passes that prints after one": listed("--print-after", "all"),
    "module as JSON": opt("--json"),
    "compile that prints after no pass": lambda place: [
        *("compile", str(place.digits.model), "--print-ir-after", "fold-constant"),
        *("-o", str(place.outputs / "m.odtc")),
    ],
}
