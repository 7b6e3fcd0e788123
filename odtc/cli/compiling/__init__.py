"""Commands that compile and plan, and the options that they share."""
