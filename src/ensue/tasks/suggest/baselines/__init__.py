"""What is counted of a log of queries and looked up in it."""
