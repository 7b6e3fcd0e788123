"""Adapters outside of a trainer: a file of tensors, and the folder that Hugging Face PEFT reads."""
