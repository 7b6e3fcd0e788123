"""Twelve families of models by five ways out of PyTorch: what odtc trains, and what it says.

`python -m tests.ways_in` fills the table, within ten minutes or so, and writes docs/ways_in.md.
"""
