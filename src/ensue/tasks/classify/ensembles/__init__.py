"""Network and linear models as one answer."""
