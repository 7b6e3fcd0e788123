"""What is done to a model's inputs in front of its own first node."""
