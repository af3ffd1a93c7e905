"""What is counted, not learned: baselines, and how long histories and pauses are."""
