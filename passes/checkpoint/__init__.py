"""Rematerialization: the tensors of a step that are dropped and computed again to fit a budget."""
