"""Height of memory plans, and the time to find them: `python -m benchmarks.packing`.

The inputs are those of MiniMalloc, which were chosen because they are hard, and drawn training
steps with thousands of buffers. Each plan is checked by the validator before it is reported. Plans
depend on steps of search alone, so they are the same on every machine; their times are not.
"""
