"""Recurrent layers, a kernel for a whole sequence.

`rules` hands an operator to `forward` and `backward`, which are made of `parts`.
"""
