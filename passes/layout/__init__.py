"""Layouts of a step's tensors: the problem, its exact solver, and a validator."""
