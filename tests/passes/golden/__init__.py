"""Golden tests: text files of a few lines, compared with what each pass makes of them.

python -m tests.passes.golden          # writes anew what passes make
git diff tests/passes/golden           # shows what became of them
"""
