"""Which layout each tensor of a step has: the problem, its exact solver, and a validator."""
