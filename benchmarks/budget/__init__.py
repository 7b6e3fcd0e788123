"""Steps within memory budgets, beside their peers: `python -m benchmarks.budget`.

A step is compiled as it is and under budgets that are shares of its arena. For each, odtc chooses
which calls run again and into how many micro-batches the batch is cut. Losses of all are compared
first; then they take steps in turns, in one process, as those of `benchmarks.step_time`. What each
process needs in memory is measured in fresh ones, as `benchmarks.memory` says, and shown beside the
plan: arena, accumulators, parameters, optimizer state, and the tensors that a call is fed. Steps
timed in turns lie in memory together: large ones may leave no room for peers (`--peers`).

Where batch normalisations may take the statistics of micro-batches, losses of such a step are
others, by the user's word; they are printed, and the step is timed nevertheless.

A budget that cannot be met, and a peer that cannot train the network, say why, and the others go
on. Models that PyTorch exported have a fixed batch; those that take no other one are not cut.
"""
