"""Networks and counts together, and what only they are made of."""
