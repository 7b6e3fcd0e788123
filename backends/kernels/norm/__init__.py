"""Normalisations and their gradients.

`moments` and `stages` are what they are made of; `normalised` applies one where a tensor is read.
"""
