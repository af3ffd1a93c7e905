"""What the AST paper prints (Danovitch 2020), and what must be known before any of it is compared."""

from __future__ import annotations

from collections.abc import Mapping

PRECISION: Mapping[int, Mapping[str, float]] = {
    50: {"cnn": 100.0, "gru": 98.0, "bigru": 98.0, "ast": 100.0},
    100: {"cnn": 99.0, "gru": 96.0, "bigru": 99.0, "ast": 96.0},
    200: {"cnn": 97.5, "gru": 92.0, "bigru": 96.5, "ast": 94.5},
    500: {"cnn": 90.4, "gru": 88.0, "bigru": 92.6, "ast": 92.4},
    1000: {"cnn": 84.8, "gru": 79.8, "bigru": 83.7, "ast": 84.8},
    2000: {"cnn": 68.65, "gru": 62.25, "bigru": 67.25, "ast": 70.0},
    3000: {"cnn": 55.53, "gru": 49.93, "bigru": 54.27, "ast": 57.9},
}
"""Table 1: precision of the r best pairs, per cent."""
OVERALL: Mapping[str, Mapping[str, float]] = {
    "gru": {"pooled_ap": 43.53, "auc": 96.03, "mrp": 76.68},
    "bigru": {"pooled_ap": 47.58, "auc": 96.05, "mrp": 80.29},
    "cnn": {"pooled_ap": 49.81, "auc": 97.09, "mrp": 81.05},
    "ast": {"pooled_ap": 53.01, "auc": 97.50, "mrp": 81.31},
}
"""Table 2: mAP, AUC-ROC and mRP, per cent."""
CUT = 0.7
"""Figure 4's cosine: 36 of the tweets retrieved there were relevant, 10 were not."""
SLIPS = (
    "The paper's 34,888 tweets are not at hand, so its figures compare with none of these; its order does.",
    "Its mAP is the average precision of one pool of all pairs, not a mean over queries. The mean over posts and over "
    "articles stands beside it here.",
    "Its mRP is the mean over r of the precision of the r best pairs, the number of true pairs among the r: only so do "
    "Tables 1 and 2 fit each other.",
    "It does not say how pairs were split. Here no article of the test part has a post in training: with a random "
    "split of pairs, one article stands on both sides.",
    "Each model was trained once there, without an interval; and TF-IDF, which most networks lose to on little data, "
    "was not asked.",
    "Query, key and value stand in an order in its equation of the ring that makes no sense. Here the word asks and "
    "its context answers, as in the author's earlier program.",
)
