"""From a model to an artifact: the stages of a compile and of a plan, in their order."""
