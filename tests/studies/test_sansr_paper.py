"""Which printed cells cannot be: the rules by hand, and on rankings that can."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import metrics
from ensue_studies.sansr import CUTOFFS, DIGINETICA, METRICS, PAPER, PRINTED, YOOCHOOSE, faults, impossible, suspects


def figures(rank: metrics.Floats) -> dict[str, float]:
    """What ranks give, with four decimals as a paper prints them."""
    return {name: round(float(column.mean()), 4) for name, column in metrics.rank_metrics(rank, CUTOFFS).items()}


def test_no_real_ranking_is_called_impossible() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        spread = 10 ** random.uniform(0, 3)
        ranks = np.ceil(random.exponential(spread, int(random.integers(1, 3000)))).clip(1)
        assert list(faults(figures(ranks))) == []


def test_each_rule_by_hand() -> None:
    # Half the targets are third, a tenth is fifteenth: MRR 1/6 + 1/150, NDCG 1/4 + 1/40.
    good = dict(zip(METRICS, (0.5, 0.6, 0.1667, 0.1733, 0.25, 0.275), strict=True))
    assert list(faults(good)) == []
    cases = [
        ({"mrr@20": 0.16}, [("mrr@10", "mrr@20")]),  # a longer list loses nothing
        ({"mrr@10": 0.26, "mrr@20": 0.2667}, [("mrr@10", "ndcg@10")]),  # 1 / r <= 1 / log2(r + 1)
        ({"mrr@20": 0.1687}, [("hit@10", "hit@20", "mrr@10", "mrr@20")]),  # a tenth is worth 1/200 to 1/110
        ({"ndcg@20": 0.2798}, [("hit@10", "hit@20", "ndcg@10", "ndcg@20")]),  # 0.1 / log2(12) = 0.0279
        ({"ndcg@20": 0.2720}, [("hit@10", "hit@20", "ndcg@10", "ndcg@20")]),  # 0.1 / log2(21) = 0.0228
    ]
    for change, expected in cases:
        assert [cells for cells, _ in faults({**good, **change})] == expected, change


def test_the_papers_cells_that_cannot_be() -> None:
    found = {(row["data"], row["model"], tuple(row["cells"])): row["why"] for row in impossible()}
    assert found[YOOCHOOSE, "sansr", ("mrr@10", "mrr@20")].startswith("0.8217 at 10 exceeds 0.8186 at 20")
    assert found[DIGINETICA, "bpr-mf", ("mrr@10", "mrr@20")].startswith("0.0448 at 10 exceeds 0.0350 at 20")
    below = found[DIGINETICA, "popularity, bpr-mf, fpmc", ("hit@20",)]
    assert below.startswith("a random order among 1 + 100 items has HR@20 0.1980, above these")  # 20 / 101
    assert "0.0262" in found[DIGINETICA, "sansr", ("k = 0, h = 1 to 5",)]  # 0.5724 - 0.5462
    assert suspects(DIGINETICA, "stamp") == set() == suspects(YOOCHOOSE, "fpmc")
    assert suspects(DIGINETICA, "sansr") == {"hit@10", "hit@20", "mrr@10", "mrr@20", "ndcg@10", "ndcg@20"}


@pytest.mark.parametrize("data", [DIGINETICA, YOOCHOOSE])
def test_the_printed_tables_are_whole(data: str) -> None:
    assert all(tuple(row) == METRICS for row in PRINTED[data].values())
    assert len(PAPER["grid"][data]) == 5 and all(len(row) == 5 for row in PAPER["grid"][data])
