"""The same training step by odtc and its peers, each in a process of its own, in turns.

What is measured, and what is not, is said in `docs/comparison.md`.
"""
