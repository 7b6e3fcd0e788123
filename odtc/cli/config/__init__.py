"""Options that are kept in a file: odtc.toml, or [tool.odtc] of pyproject.toml."""
