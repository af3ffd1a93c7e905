"""The linear models and the majority, which stand beside every network of task ``classify``."""
