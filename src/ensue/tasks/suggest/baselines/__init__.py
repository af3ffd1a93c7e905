"""Count-based models of a query log, and retrieval from it."""
