"""Task ``next``: which id comes next in a timed sequence.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: counted).
"""

from typing import Any

from ensue.next_event.counting import Cooccurrence, CountingSettings, Markov, Popularity
from ensue.next_event.hidan import HiDAN, HiDANSettings
from ensue.training import Schedule

_HIDAN = Schedule(batch_size=16, watch="mrr")

MODELS: dict[str, tuple[Any, Any, Schedule | None]] = {
    "hidan": (HiDAN, HiDANSettings(), _HIDAN),
    "hidan-nua": (HiDAN, HiDANSettings(user_attention=False), _HIDAN),
    "hidan-nca": (HiDAN, HiDANSettings(cascade_attention=False), _HIDAN),
    "hidan-nt": (HiDAN, HiDANSettings(time_decay=False), _HIDAN),
    "popularity": (Popularity, CountingSettings(), None),
    "markov": (Markov, CountingSettings(), None),
    "cooccurrence": (Cooccurrence, CountingSettings(), None),
}
COUNTING = ("popularity", "markov", "cooccurrence")
BEST = "hidan"
"""The model that ``--model best`` names."""
