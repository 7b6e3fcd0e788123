"""How low memory plans are, and how soon: `python -m benchmarks.packing`.

The inputs are those of MiniMalloc, which were chosen because they are hard, and drawn training
steps with thousands of buffers. Each plan is checked by the validator before it is told. Plans
depend on steps of search alone, so they are the same on every machine; their times are not.
"""
