"""Memory that is read and written in vectors: where these lie."""
