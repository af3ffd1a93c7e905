"""Files in, columns out: readers, splits and the synthetic world. Knows no torch."""
