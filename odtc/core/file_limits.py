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

MOST_PLAN_BYTES = 64 << 20
"""Of an artifact's memory plans: some hundred for each tensor of each plan."""
