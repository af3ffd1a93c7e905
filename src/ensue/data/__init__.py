"""Files in, columns out: readers, splits, checks and the synthetic world. Knows no torch."""
