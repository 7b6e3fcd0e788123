"""Commands that are killed at random moments, again and again: `python -m tests.kills`."""
