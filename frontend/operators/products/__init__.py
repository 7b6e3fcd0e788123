"""Operators that multiply matrices, and those that are made of such."""
