"""The native runtime for Android."""
