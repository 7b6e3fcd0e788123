"""Ways to make a plan: each takes a step, and gives an order of its tasks."""
