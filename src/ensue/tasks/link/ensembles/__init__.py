"""The weighted sum of scores of model ``best``."""
