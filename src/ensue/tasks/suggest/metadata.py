"""Training data and held-out metrics of a suggester, as stored in ``settings.json`` and shown on the model card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ensue.data.queries.rules import Normalisation
from ensue.learning.state import Count
from ensue.learning.state import Metadata as SharedMetadata

Weight = Annotated[float, Field(ge=-1e6, le=1e6)]
"""Weight of a feature, whose values are below a few thousand."""
Share = Annotated[float, Field(ge=0, le=1.001)]


@dataclass(kw_only=True)
class SuggesterMetadata(SharedMetadata):
    """Training data of a suggester, and its metrics on held-out sessions."""

    sessions: Count
    """Learned so far."""
    queries: Count
    """Number of queries of all sessions."""
    distinct: Count
    """Different ones at the fit."""
    tokens: Count
    """Number of tokens that the network knows, without the special ones."""
    normalisation: Normalisation
    """Normalisation of typed queries."""
    notes: list[str]
    """Messages for the person who trains."""
    validation_loss: float = 0.0
    """Mean cross-entropy a token on held-out sessions, in nats."""
    found_in_pool: float = 0.0
    """Share of the true next queries that are among the candidates, on held-out sessions."""
    mix: dict[str, Weight] | None = None
    """The weight of each of the features that candidates are ordered by; ``None``: by the network alone."""
    mixture: dict[str, Share] | None = None
    """The weight of the network and of each counting model in their mixture; ``None``: counting takes no part."""
    shortlist: Count = 0
    """Number of retrieved queries per answer that the network scores; 0: all. Chosen on held-out sessions."""
    word_cost: Weight | None = None
    """Cost per word in the choice of the first suggestion; ``None``: the likeliest is first."""
    validation_bleu: dict[str, float] | None = None
    """BLEU of what leads on held-out sessions, the likeliest and the chosen."""
