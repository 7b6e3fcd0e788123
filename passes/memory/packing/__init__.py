"""The solver: blocks with lifespans get offsets."""
