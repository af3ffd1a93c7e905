"""Metrics as pure functions of the rank of a target, of the predicted label of a text, or of two texts.

Tie rule of ranks: a candidate that scores the same as the target ranks above it, so a constant scorer gains nothing.
Labels are counted once a text; how well probabilities are calibrated is in ``classify/calibration.py``. Texts are
compared by the words between their spaces; counts of pairs add up, so that a resample is a weighted sum of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index, Mask

Floats = npt.NDArray[np.float64]
MISS = np.inf
LONG_ROW = 2048
"""Candidates of a target above which they are counted by one call per row."""
UNBOUNDED = ("log_loss",)
"""Metrics that are not fractions: shown as they are, others x 100."""
_LABELS = {
    "mrr": "MRR",
    "ctr": "CTR",
    "hit": "HR",
    "ndcg": "NDCG",
    "recall": "Recall",
    "map": "MAP",
    "article_mrr": "MRR by article",
    "article_map": "MAP by article",
    "pooled_ap": "pooled AP",
    "mrp": "mRP",
    "auc": "AUC",
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "subset_accuracy": "subset accuracy",
    "lrap": "LRAP",
    "calibration_error": "ECE",
    "log_loss": "log loss",
    "bleu": "BLEU",
    "exact": "exact match",
    "content": "content words",
    "precision": "n-gram precision",
}
CUTOFFS = (10, 20, 50, 100)
"""Default cut-offs of ranking metrics."""
NGRAMS = 4
"""The longest n-gram that counts."""
_ENGLISH = """a an and are as at be by can could did do does for from had has have how i if in is it its me my of on or
s should that the their there they this to was we were what what's when where which who whose why will with would you
your"""
STOP_WORDS = frozenset(_ENGLISH.split())
"""Words that most English questions share; a suggestion that hits only these has said nothing."""


def label(metric: str) -> str:
    """Return a metric as papers write it: ``HR@10`` of ``hit@10``."""
    name, separator, k = metric.partition("@")
    return f"{_LABELS.get(name, name)}{separator}{k}"


def ranks(scores: npt.NDArray[np.floating], targets: Index) -> Floats:
    """Return the rank of each target among all candidates, (targets,): 1 is best, ties count against it.

    Args:
        scores: (targets, candidates); a candidate at -inf is ruled out, a target at -inf ranks last, and so does one
            whose score is no number.
        targets: (targets,) column of the true candidate.
    """
    # What is no number is below nothing.
    below = scores < np.take_along_axis(scores, targets[:, None], 1)
    # Along an axis each truth value becomes a whole number that is added; of one long row NumPy counts bytes.
    is_long = scores.shape[1] > LONG_ROW
    counts = np.fromiter(map(np.count_nonzero, below), np.float64) if is_long else below.sum(axis=1, dtype=np.float64)
    return scores.shape[1] - counts


def sampled_ranks(scores: npt.NDArray[np.floating], targets: Index, negatives: Index) -> Floats:
    """Return the rank of each target among itself and a few sampled candidates, (targets,), up to ``sampled + 1``.

    Args:
        scores: (targets, candidates).
        targets: (targets,) column of the true candidate.
        negatives: (targets, sampled) columns, none of them the target's.
    """
    target_scores = np.take_along_axis(scores, targets[:, None], 1)
    is_below = np.take_along_axis(scores, negatives, 1) < target_scores
    return 1.0 + (~is_below).sum(axis=1)


def reciprocal_rank(rank: Floats, at: float = np.inf) -> Floats:
    """Return 1 / rank, 0 beyond ``at``. Its mean is MRR (MRR@k); with one target a list, MAP@k is the same number."""
    return np.where(rank <= at, 1 / rank, 0.0)


def hit(rank: Floats, at: float) -> Floats:
    """Return 1 if the target is among the first ``at``, else 0. Its mean is HR@k, also called A@k and recall@k."""
    return (rank <= at).astype(np.float64)


def gain(rank: Floats, at: float) -> Floats:
    """Return 1 / log2(rank + 1), 0 beyond ``at``. With one target its mean is NDCG@k."""
    return np.where(rank <= at, 1 / np.log2(rank + 1), 0.0)


def rank_metrics(rank: Floats, at: Sequence[int]) -> dict[str, Floats]:
    """Return (targets,) of every metric of each target, by name.

    Args:
        rank: (targets,) ranks from 1; ``MISS`` for a target that could not be ranked.
        at: the cutoffs k.
    """
    columns = {"mrr": reciprocal_rank(rank)}
    for k in at:
        columns |= {f"hit@{k}": hit(rank, k), f"mrr@{k}": reciprocal_rank(rank, k), f"ndcg@{k}": gain(rank, k)}
    return columns


def label_counts(given: Index, targets: Index, num_labels: int, weights: Floats | None = None) -> Floats:
    """Return (3, labels) how often each label was predicted and true, was predicted, and was true.

    Args:
        given: (texts,) predicted labels as codes from 0; ``num_labels`` stands for no label.
        targets: (texts,) true labels.
        num_labels: number of labels, those that no text has included.
        weights: (texts,) how often each text counts. [default: once]
    """
    weights = np.ones(len(given)) if weights is None else weights
    is_right = given == targets
    columns = [(given[is_right], weights[is_right]), (given, weights), (targets, weights)]
    # A bin more than labels may be filled, by texts without a predicted label: it is cut off.
    return np.stack([np.bincount(codes, counts, num_labels)[:num_labels] for codes, counts in columns])


def precision_recall_f1(counts: Floats) -> Floats:
    """Return (3, labels) precision, recall and F1 of each label from :func:`label_counts`; 0 where a sum is 0."""
    num_right, num_predicted, num_true = counts
    # F1 = 2 PR / (P + R) = right / mean(predicted, true).
    totals = np.stack([num_predicted, num_true, (num_predicted + num_true) / 2])
    return np.divide(num_right, totals, out=np.zeros_like(totals), where=totals > 0)


def macro_f1(counts: Floats) -> float:
    """Return the mean F1 over all labels that are true or predicted for some text, as scikit-learn's ``f1_score``."""
    _, predicted, true = counts
    return float(precision_recall_f1(counts)[2][predicted + true > 0].mean())


def set_counts(predicted: Mask, targets: Mask, weights: Floats | None = None) -> Floats:
    """Return (3, labels) as :func:`label_counts`, of texts with sets of labels.

    Args:
        predicted: (texts, labels) whether each label is predicted.
        targets: (texts, labels) whether it is true.
        weights: (texts,) how often each text counts. [default: once]
    """
    weights = np.ones(len(targets)) if weights is None else weights
    return np.stack([weights @ flags for flags in (predicted & targets, predicted, targets)])


def micro_f1(counts: Floats) -> float:
    """Return F1 over all pairs of a text and a label, from :func:`set_counts`; 0 where none is true or predicted."""
    return float(precision_recall_f1(counts.sum(1, keepdims=True))[2, 0])


def subset_accuracy(predicted: Mask, targets: Mask) -> Floats:
    """Return (texts,) 1 where the predicted set of labels is the true one, else 0."""
    return (predicted == targets).all(1).astype(np.float64)


def label_ranking_precision(scores: Floats, targets: Mask) -> Floats:
    """Return (texts,) the mean, over the true labels, of the fraction of true ones among those that score no less.

    Its mean over texts is LRAP, as scikit-learn's ``label_ranking_average_precision_score``; equal scores count against
    a label, and a text without labels, or with all of them, is 1.

    Args:
        scores: (texts, labels).
        targets: (texts, labels) whether each label is true.
    """
    ranks_of_all = _label_ranks(-scores)
    # Ranks among the true labels alone: the others are behind all of them.
    ranks_of_true = _label_ranks(np.where(targets, -scores, np.inf))
    num_true = targets.sum(1)
    sums = np.where(targets, ranks_of_true / ranks_of_all, 0.0).sum(1)
    is_trivial = (num_true == 0) | (num_true == targets.shape[1])
    return np.where(is_trivial, 1.0, sums / np.maximum(num_true, 1))


def _label_ranks(costs: Floats) -> Floats:
    """Return (texts, labels) how many labels of a text cost no more than each."""
    ranks = [np.searchsorted(np.sort(row), row, side="right") for row in costs]
    return np.array(ranks, np.float64).reshape(costs.shape)


def log_loss(shares: Floats) -> Floats:
    """Return (texts,) -ln of the probability of the true label; 0 counts as 2.2e-16, as in scikit-learn."""
    return 0.0 - np.log(np.clip(shares, np.finfo(np.float64).eps, 1.0))


def ngram_counts(candidates: pl.Series, references: pl.Series, *, without: Collection[str] = ()) -> Floats:
    """Return (pairs, 10) clipped matches of 1- to 4-grams, n-grams of the candidate, words of candidate and reference.

    An n-gram matches as often as both texts have it (Papineni et al. 2002). Rows add up: sum them over a corpus.

    Args:
        candidates: (pairs,) texts that were suggested.
        references: (pairs,) texts that were typed.
        without: words that are taken out of both first, such as ``STOP_WORDS``.
    """
    num_pairs = len(candidates)
    texts = pl.DataFrame({"text": pl.concat([candidates.alias("text"), references.alias("text")]).cast(pl.String)})
    words = texts.with_row_index("row").with_columns(pl.col("text").str.extract_all(r"[^ ]+"))
    flat = words.explode("text", empty_as_null=False).filter(~pl.col("text").is_in(list(without)))
    row = flat["row"].to_numpy().astype(np.int64)
    codes = flat["text"].rank("dense").to_numpy().astype(np.int64)
    lengths = np.bincount(row, minlength=2 * num_pairs)
    matches = []
    totals = []
    grams = codes
    for n in range(1, NGRAMS + 1):
        if n > 1:  # an n-gram is an (n - 1)-gram and the word after it, in the same text
            together = row[: max(len(row) - n + 1, 0)] == row[n - 1 :]
            # The code of a gram and that of the next word make one number, which is numbered densely again.
            pairs = np.where(together, grams[: len(together)] * (len(codes) + 1) + codes[n - 1 :], -1)
            grams = np.unique(pairs, return_inverse=True)[1] + 1
            gram_rows = row[: len(grams)][together]
            gram_codes = grams[together]
        else:
            gram_rows = row
            gram_codes = grams
        matches.append(_clipped(gram_rows, gram_codes, num_pairs))
        totals.append(np.maximum(lengths[:num_pairs] - n + 1, 0))
    return np.stack([*matches, *totals, lengths[:num_pairs], lengths[num_pairs:]], axis=1).astype(np.float64)


def _clipped(rows: Index, grams: Index, num_pairs: int) -> Index:
    """Return (pairs,) the n-grams that row p and row p + num_pairs share, each as often as both have it."""
    # Candidate and reference of a pair get equal keys for equal grams: pair number times grams, plus the gram.
    keys = rows % max(num_pairs, 1) * (grams.max(initial=0) + 1) + grams
    distinct, codes = np.unique(keys, return_inverse=True)
    first = rows < num_pairs
    counts = [np.bincount(codes[side_rows], minlength=len(distinct)) for side_rows in (first, ~first)]
    common = np.bincount(distinct // (grams.max(initial=0) + 1), np.minimum(*counts), num_pairs)
    return common.astype(np.int64)


def ngram_precision(counts: Floats) -> Floats:
    """Return (…, 4) precision of 1- to 4-grams from sums (…, 10) of :func:`ngram_counts`; 0 without an n-gram."""
    matches = counts[..., :NGRAMS]
    totals = counts[..., NGRAMS : 2 * NGRAMS]
    return np.divide(matches, totals, out=np.zeros_like(matches), where=totals > 0)


def bleu(counts: Floats) -> Floats:
    """Return (…) BLEU-4 as a fraction from sums (…, 10) of :func:`ngram_counts`, unsmoothed: no match is 0.

    The geometric mean of the four precisions, times exp(1 - reference / candidate) where the candidates are shorter.
    """
    precision = ngram_precision(counts)
    candidate_words, reference_words = np.moveaxis(counts[..., -2:], -1, 0)
    length_ratio = np.divide(
        reference_words, candidate_words, out=np.ones_like(reference_words), where=candidate_words > 0
    )
    with np.errstate(divide="ignore"):
        logs = np.log(precision).mean(-1)
    return np.exp(logs + np.minimum(0.0, 1.0 - length_ratio))


def text_ranks(suggested: pl.Series, offsets: Index, targets: pl.Series) -> Floats:
    """Return (targets,) the rank of the true text in its list of suggestions, 1 is best, ``MISS`` if it is absent.

    Its reciprocal (:func:`reciprocal_rank`) gives MRR@k, :func:`hit` at k recall@k, and at 1 exact match.

    Args:
        suggested: (suggestions,) texts, list after list, best first.
        offsets: (targets + 1,) list ``i`` is ``suggested[offsets[i]:offsets[i + 1]]``.
        targets: (targets,) the texts that were typed.
    """
    lengths = np.diff(offsets)
    # The target of each suggestion, so that one comparison of columns finds all matches.
    owners = np.repeat(np.arange(len(lengths)), lengths)
    matches = np.flatnonzero((suggested == targets.gather(owners)).to_numpy())
    rank = np.full(len(lengths), MISS)
    # A text may be suggested twice: the better rank counts.
    np.minimum.at(rank, owners[matches], matches - offsets[owners[matches]] + 1.0)
    return rank
