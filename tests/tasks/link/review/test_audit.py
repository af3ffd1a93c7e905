"""Audits: the bound beside SciPy, and sizes of samples by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from ensue.tasks.link.review.review import ROUNDED, audit_size, most_relevant


@given(st.integers(1, 300), st.integers(0, 300), st.integers(0, 20), st.sampled_from([0.05, 0.04, 0.008]))
def test_the_bound_agrees_with_scipy(posts: int, sampled: int, hits: int, alpha: float) -> None:
    sampled = min(sampled, posts)
    hits = min(hits, sampled)
    wanted = max(
        number
        for number in range(hits, posts - sampled + hits + 1)
        if hypergeom.cdf(hits, posts, number, sampled) > alpha * ROUNDED
    )
    assert most_relevant(posts, sampled, hits, alpha) == wanted


def test_audit_sizes_by_hand() -> None:
    # 18 found allow 2 more at 90 %. A sample of m out of 10 misses 3 with chance C(7, m) / C(10, m): 1/6 at 4 ... 1/30
    # at 6 and 1/120 at 7; C(7,5)/C(10,5) = 21/252 = .083 at 5. Under .05 it is first at 6.
    assert audit_size(10, 18, 0, 0.9, 0.05) == 6
    # One in the sample is found with it: (18 + 1) / .9 - 18 = 3.1 allows 3 in all. Of 4, at most one is met with chance
    # (C(6, m) + 4 C(6, m - 1)) / C(10, m): 25/210 = .119 at 6 and 4/120 = .033 at 7.
    assert audit_size(10, 18, 1, 0.9, 0.05) == 7
    assert audit_size(10, 0, 0, 0.9, 0.05) == 10  # nothing found allows nothing: all must be read
