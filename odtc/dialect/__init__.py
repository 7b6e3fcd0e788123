"""The Relax operators of our own: each is declared in one file, and tables elsewhere follow."""
