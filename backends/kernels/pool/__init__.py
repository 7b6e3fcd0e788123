"""Pooling and its gradients, plane by plane.

`planes` and `bands` are what they walk over: a plane as one line of vectors, or a few rows at a
time.
"""
