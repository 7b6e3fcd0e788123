"""The gradient of a step, and what is rewritten around it."""
