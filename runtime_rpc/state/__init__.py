"""What training changes: weights and state, and the files that keep them."""
