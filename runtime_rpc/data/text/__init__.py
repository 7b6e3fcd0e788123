"""Text for language models: documents of tokens, and the rows of them that a step takes."""
