"""Operators that only the gradient pass meets."""
