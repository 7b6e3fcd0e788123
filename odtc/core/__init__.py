"""Modules that every layer may use: errors, tensor specs, the manifest and the artifact bundle."""
