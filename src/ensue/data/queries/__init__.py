"""Query logs in, sessions of queries out."""

from ensue.data.queries.dataset import Queries, QueriesReport, hold_out_queries, prefixes, read_queries, require_pairs

__all__ = ["Queries", "QueriesReport", "hold_out_queries", "prefixes", "read_queries", "require_pairs"]
