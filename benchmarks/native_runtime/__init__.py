"""The cost of a training step without Python: sizes, start, memory, and time of a step."""
