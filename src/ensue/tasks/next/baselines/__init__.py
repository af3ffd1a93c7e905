"""Count-based models: baselines, and statistics of lengths and delays."""
