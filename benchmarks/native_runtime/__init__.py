"""What a training step costs without Python: sizes, start, memory, and time of a step."""
