"""Posts and articles in, columns out."""
