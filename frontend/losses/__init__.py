"""Losses: what is minimised, how a user writes it, and its value and gradient in Relax.

A loss brings its own derivative by the model's output. The backward pass starts from that, so no
gradient rule of an operator is involved, and the closed forms hold where composed ones would not:
at zero, and where an exponential overflows.
"""
