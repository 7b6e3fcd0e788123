"""How the figures of each page become lines of Markdown."""
