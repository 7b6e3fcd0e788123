"""Control flow, sequences and optionals as what they come to."""
