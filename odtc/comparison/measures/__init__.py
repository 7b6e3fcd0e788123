"""Measures of a step and of its machine, and how they are reported."""
