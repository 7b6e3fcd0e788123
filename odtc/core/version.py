"""The version of odtc, for layers that may not import its face."""

VERSION = "0.1.0"
