"""Attention, forward and backward, without the matrix of its probabilities.

`rules` hands an operator to `forward` and `backward`, which go through it block by block: `layout`
says where tensors lie, `blocks` how they are cut, `scores` multiplies two blocks and applies the
mask.
"""
