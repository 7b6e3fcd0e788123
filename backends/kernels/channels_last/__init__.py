"""Kernels of images whose channels are last, each beside its fellow of another folder.

`channel_blocks` and `pixel_rows` are what they are made of; `relayout` copies from one layout to
the other.
"""
