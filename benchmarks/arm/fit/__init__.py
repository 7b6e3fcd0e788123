"""Fits what kernels for ARM are chosen by to counts of an emulator: none of them is a time.

Tiles of products are counted one by one, and become the table that the machine's model reads. Then
products of networks are counted with the other candidates of their decisions: what the model takes,
and what the counts say.
"""
