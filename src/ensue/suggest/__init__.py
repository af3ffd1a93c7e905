"""Task ``suggest``: which query will be typed next.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: counted).
The defaults of the networks are of a size that a CPU learns and answers with, and each has about as many weights; those
of the settings themselves are the paper's.
"""

from typing import Any

from ensue.suggest import mtn, recurrent
from ensue.suggest.counting import MostFrequentNext, RepeatLast
from ensue.suggest.mtn import MTN, MTNSettings
from ensue.suggest.recurrent import HLSTM, HLSTMSettings, Seq2Seq, Seq2SeqSettings
from ensue.suggest.transformers import Transformer, TransformerSettings
from ensue.training import Schedule

_SMALL: dict[str, Any] = {"dim": 256, "embedding": 128, "wide": 512, "heads": 4, "tied": True}
_LSTM: dict[str, Any] = {"dim": 512, "embedding": 128, "tied": True}  # wider, for as many weights

MODELS: dict[str, tuple[Any, Any, Schedule | None]] = {
    "mtn": (MTN, MTNSettings(**_SMALL), mtn.SCHEDULE),
    "transformer": (Transformer, TransformerSettings(**_SMALL), mtn.SCHEDULE),
    "flat-transformer": (Transformer, TransformerSettings(**_SMALL, window=16), mtn.SCHEDULE),
    "seq2seq": (Seq2Seq, Seq2SeqSettings(**{**_LSTM, "dim": 624}), recurrent.SCHEDULE),
    "h-lstm": (HLSTM, HLSTMSettings(**_LSTM), recurrent.SCHEDULE),
    "m-nsrf": (HLSTM, HLSTMSettings(**_LSTM, pooling="max", entropy=0.1), recurrent.SCHEDULE),
    "most-frequent-next": (MostFrequentNext, None, None),
    "repeat-last": (RepeatLast, None, None),
}
COUNTING = ("most-frequent-next", "repeat-last")
"""Learned beside every network."""
BEST: tuple[str, dict[str, object]] = ("mtn", {"copy": True, "reads": "all", "retrieved": 50})
"""What ``best`` is: MTN that reads and may copy the words of all queries so far, and scores what is looked up in the
log beside what it writes. Which is likeliest is decided by weights that held-out sessions choose; networks are not
tried against each other, for each costs a whole training: ``compare`` does that."""
