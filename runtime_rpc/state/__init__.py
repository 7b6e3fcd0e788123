"""The state that training changes: weights, optimizer state, and the files that keep them."""
