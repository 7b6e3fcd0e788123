"""A run as a person sees it while it goes on: curves, time left, memory, heat."""
