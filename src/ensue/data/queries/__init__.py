"""Query logs in, sessions of queries out."""

from ensue.data.queries.dataset import Queries, UnderstoodQueries, hold_out_queries, prefixes, read_queries

__all__ = ["Queries", "UnderstoodQueries", "hold_out_queries", "prefixes", "read_queries"]
