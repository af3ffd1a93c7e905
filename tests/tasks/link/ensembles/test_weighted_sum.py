"""The hybrid: scores standardised by hand, none of the articles, posts together."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ensue.tasks.link.ensembles.weighted_sum import (
    PSEUDO_COUNT,
    log_shares,
    standardised,
    transductive_prior,
)


def test_standardised_by_hand() -> None:
    # (1, 3): mean 2, deviation 1. Equal scores are 0, not 0 / 0.
    np.testing.assert_allclose(standardised([[1, 3], [5, 5]]), [[-1, 1], [0, 0]])


def test_shares_of_articles_and_of_none_are_one() -> None:
    sums = np.array([[0.0, np.log(2)]])
    # e^0 + e^ln2 + e^0 of none = 4.
    np.testing.assert_allclose(np.exp(log_shares(sums, np.zeros(3), 0.0)), [[1 / 4, 1 / 2]])


def test_popularity_is_a_literal_expectation_maximisation() -> None:
    random = np.random.default_rng(1)
    sums, null_logit, strength = random.normal(size=(30, 4)) + np.array([1.0, 0, 0, 0]), 0.5, 0.7
    share = np.array([1 / 8] * 4 + [1 / 2])
    start = share.copy()
    for _ in range(20):
        counts = np.array([PSEUDO_COUNT] * 4 + [4 * PSEUDO_COUNT])
        for row in sums:
            joint = np.exp(np.append(row, null_logit)) * (share / start) ** strength
            counts = counts + joint / joint.sum()
        share = counts / counts.sum()
    found = transductive_prior(sums, strength, null_logit)
    np.testing.assert_allclose(found, strength * np.log(share / start))
    assert found[:4].argmax() == 0
    assert (transductive_prior(sums, 0.0, null_logit) == 0).all()
    assert (transductive_prior(sums[:0], 1.0, null_logit) == 0).all()


def test_no_label_is_used_by_posts_together() -> None:
    # Three posts are clearly about article 0; the fourth says nothing and follows them.
    sums = np.array([[6.0, 0, 0], [6, 0, 0], [6, 0, 0], [0, 0, 0]])
    alone, joined = (log_shares(sums, transductive_prior(sums, strength, 0.0), 0.0) for strength in (0.0, 1.0))
    assert alone[3].tolist() == pytest.approx([np.log(1 / 4)] * 3) and joined[3].argmax() == 0
    assert pl.Series(joined[3]).n_unique() == 2


def test_below_zero_what_others_are_about_is_less_likely() -> None:
    # Article 0 is what the first post is about, surely; the second says a little more of it than of article 1.
    sums = np.array([[9.0, 0, 0], [1.1, 1, 0]])
    alone, apart = (log_shares(sums, transductive_prior(sums, strength, -1.0), -1.0) for strength in (0.0, -1.0))
    assert alone.argmax(1).tolist() == [0, 0] and apart.argmax(1).tolist() == [0, 1]
