"""Plans of recomputation: odtc's beside known ways, and what no plan can be faster than.

    python -m benchmarks.recomputation --networks resnet50,unet --batch 16

Nothing is compiled or run: times are those of a model of the target, over the step as it is. The
budgets are shares of what the step as it is needs.
"""
