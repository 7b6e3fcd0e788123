"""How much a file may make of itself: all limits on files that nobody vouches for, in one table.

A small file can ask for much: functions that call each other twice, tensors that double, archives
that unpack. Each limit is far above what models of some billion parameters have, and is checked
before anything of that size is made. `docs/security.md` lists them.
"""

MOST_INLINED_NODES = 250_000
"""Nodes that a model's own functions become in its graph. Models of some billion parameters have
some tens of thousands."""

MOST_INLINED_BYTES = 1 << 30
"""Bytes of these nodes, with the tensors in them."""

MOST_MANIFEST_BYTES = 16 << 20
"""Of an artifact's manifest: some hundred for each argument of the step."""

MOST_MEMBERS_BYTES = 64 << 10
"""Of the directory of an artifact's zip file, which has six members."""

MOST_ARRAYS_BYTES = 1 << 20
"""Of the directory of an `.npz` file, which is held whole: some ten thousand arrays."""

MOST_PLAN_BYTES = 64 << 20
"""Of an artifact's memory plans: some hundred for each tensor of each plan."""

MOST_UNROLLED_NODES = 100_000
"""Nodes that all Loops and Scans of a model become; a single Loop becomes fewer, see
`odtc.frontend.normalize.control.trips`."""

MOST_UNROLLED_BYTES = 256 << 20
"""Bytes of these nodes, with the tensors in them."""

MOST_FOLDED_BYTES = 2 << 30
"""Bytes of the constants that a graph's own arithmetic gives, all together: masks, positions."""

MOST_PROPAGATED = 1 << 23
"""Elements of all lists of a graph whose values ONNX's inference follows from node to node; it
holds each as a message of its own. Of longer ones only the shape is inferred."""

MOST_CONFIG_BYTES = 64 << 10
"""Of an options file, `odtc.toml`: some thousand lines."""

MOST_RESULTS_BYTES = 32 << 20
"""Of a file of `odtc report`, which is read whole: a suite's rows have some hundred kilobytes."""

MOST_PROJECT_BYTES = 1 << 20
"""Of a `pyproject.toml`, which has the tables of other programs, too."""
