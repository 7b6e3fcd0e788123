"""Commands for phones and other devices."""
