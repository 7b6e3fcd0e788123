"""Attention on a GPU, forward and backward, without the matrix of its probabilities.

A group has a block of queries (or, for the adjoints of keys and values, a block of keys) and goes
through all blocks of the other. `tile` says how they are cut, `memory` what a group shares,
`slices` how matrices come there and are multiplied, `scores` what a mask does.
"""
