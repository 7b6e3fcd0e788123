"""What each pass makes of a few lines: text files, compared with what it makes now.

python -m tests.passes.golden          # writes anew what passes make
git diff tests/passes/golden           # shows what became of them
"""
