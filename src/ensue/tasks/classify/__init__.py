"""Task ``classify``: which label fits this text, or this pair of texts."""
