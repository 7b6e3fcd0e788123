"""A step in an app: what of an artifact each platform's builds take, in their own forms."""
