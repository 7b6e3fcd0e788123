"""Scripts that make models with other tools and export them, each run by itself beside its tool.

python -m tests.published.exporters.TOOL NAME=FILE ...
"""
