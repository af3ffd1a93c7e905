"""What the MTN paper prints (2019) and our copy of it holds: its precisions are figures that the text has lost."""

from __future__ import annotations

from collections.abc import Mapping

DEPTHS: Mapping[tuple[str, str], float] = {
    ("transformer", "4+4"): 13.90,
    ("transformer", "5+5"): 13.89,
    ("mtn", "3+2+3"): 14.62,
}
"""BLEU on AOL by model and layers: encoder (queries, then sessions) and decoder."""
BLEU: Mapping[str, float] = {"transformer": 13.90, "mtn": 14.62}
"""BLEU on AOL of those rows of Table 1 that the text names."""
HOURS: Mapping[str, float] = {"seq2seq": 2.0, "h-lstm": 2.0, "m-nsrf": 2.5, "transformer": 2.5, "mtn": 3.0}
"""An epoch, about (5.2)."""
VOCABULARY: Mapping[str, int] = {"AOL": 76_604, "OnlineX": 81_893}
CLAIMS = (
    "MTN over the best recurrent model on AOL: 20 % more 1-grams and 4-grams, 50 % more 2-grams and 3-grams, 25 % more "
    "BLEU; over the Transformer 5 % more BLEU (14.62 against 13.90)."
)
SLIPS = (
    "The AOL log is not at hand, and nobody should hand it round; OnlineX was never published. No figure of the paper "
    "is measured on the data here, so its figures compare with none of these, only its order and its ratios do.",
    "The paper trains each model once and gives no interval; here are several seeds, and intervals.",
    "The paper gives neither the beam nor what becomes of unknown words in the output. Here the beam is 10 wide, and "
    "an unknown word is never written; in the true queries it stays what it was.",
    "The paper asks neither repeat-last nor a Transformer on the whole session. Here both are rows.",
)
