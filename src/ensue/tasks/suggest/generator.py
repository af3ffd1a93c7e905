"""Interface of a suggester's network in terms of arrays: in torch, or an exported one in onnxruntime."""

from __future__ import annotations

from typing import Protocol

from ensue.metrics import Floats
from ensue.tasks.suggest.batch import PaddedQueries
from ensue.tasks.suggest.decoding import Found, Ints, Mask
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search


class Generator(Protocol):
    """Encodes sessions, writes queries, and scores them; memories are its own type, one row per session."""

    def encode(self, queries: PaddedQueries) -> object:
        """Return the memory of sessions."""

    def search(
        self, memory: object, queries: PaddedQueries, search: Search, banned: Mask | None, typed: Typed | None
    ) -> Found:
        """Return the likeliest next queries; see :func:`ensue.tasks.suggest.decoding.beam_search`.

        Args:
            memory: of the sessions.
            queries: the sessions.
            search: widths and lengths.
            banned: (ids,) True for tokens that must not be written; padding, unknown and begin never are.
            typed: what each suggestion must begin with.
        """

    def score(self, memory: object, candidates: Ints) -> Floats:
        """Return (rows, choices) log-probabilities in nats of (rows, choices, width) candidates, the end included."""

    def attributions(self, queries: PaddedQueries, candidates: Ints) -> Floats:
        """Return (rows, tokens, turns, width) weights of earlier tokens in each token of (rows, width) candidates."""

    def order(self, queries: PaddedQueries, candidates: Ints, exponent: float) -> Floats:
        """Return (rows, choices) log-probabilities over lengths, the end included, to the power of the exponent."""

    def probabilities(self, scores: Floats) -> Floats:
        """Return the softmax of (rows, choices) scores over the choices."""
