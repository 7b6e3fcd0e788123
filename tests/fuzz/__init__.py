"""Damaged models: each is refused or takes a step of training, and check said which."""
