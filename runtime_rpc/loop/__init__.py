"""The training loop: steps, validation, history, and what happens between them."""
