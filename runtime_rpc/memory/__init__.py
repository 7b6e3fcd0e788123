"""Memory of a step: its tensors, its arena, and how much the system has."""
