"""Vectors of items and sessions, and the nearest ones of each.

Items are compared by the cosine of the vectors that the network reads, and where a model has none by
:class:`~ensue.tasks.next.item_similarity.ItemSimilarity`, which counts how often two items come soon after each other.
Sessions are compared by the cosine of the encoder's vector after their last event, the one that scores the next item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ensue.answers import Choice, SimilarSession
from ensue.data.histories import Histories, Ids, Mask
from ensue.errors import DataError, SettingError
from ensue.lazy import lazy, torch
from ensue.learning.state import evaluating, is_network, require_trained
from ensue.lines import quoted
from ensue.records import History
from ensue.settings import near
from ensue.tasks.next.dataset import latest_windows
from ensue.tasks.next.infer import CELLS
from ensue.tasks.next.item_filter import Rules, top_items
from ensue.tasks.next.state import NextState
from ensue.text.encoder import Vectors
from ensue.topk import topk
from ensue.vocabulary import FIRST, UNKNOWN

if TYPE_CHECKING:
    from ensue.nn import item_head
    from ensue.tasks.next import network
    from ensue.tasks.next.network import ItemNetwork
else:
    item_head = lazy("ensue.nn.item_head")
    network = lazy("ensue.tasks.next.network")

SESSIONS = 256
"""Sessions that are encoded at once."""
MAX_COMPARED = 10_000
"""Items whose names are compared with an unknown one: more would keep a service busy with one wrong id."""


def item_vectors(state: NextState) -> Vectors | None:
    """Return (ids, dim) the vectors of items as the network reads them; ``None`` where the model has none."""
    model = require_trained(state.model)
    if state.metadata.exported is not None:
        # Its baselines would compare items by something else than the folder it was exported from.
        raise SettingError("an exported model has no vectors of items; ask the folder that it was exported from")
    if not is_network(model):
        return None
    tables = (module for module in model.modules() if isinstance(module, item_head.ItemTable))
    table = next(tables, None)
    return None if table is None else table.weight.detach().cpu().numpy()


def similarity_source(state: NextState) -> str:
    """Return what items are compared by, for messages."""
    return state.item_similarity().source if item_vectors(state) is None else "vectors"


def similar_items(state: NextState, items: Sequence[str], k: int, rules: Rules) -> list[list[Choice]]:
    """Return the ``k`` items most similar to each item, among those that the rules permit.

    Raises:
        DataError: the model does not know an item, or a filter cannot be read.
    """
    vectors = item_vectors(state)
    ids = state.vocabulary.ids(items)
    unknown = np.flatnonzero(ids == UNKNOWN)
    if len(unknown):
        raise _unknown(state, items[int(unknown[0])])
    (permitted,) = state.filters_of([rules])
    hidden = np.array([*range(FIRST), *(state.metadata.forgotten or ())])
    titles = state.known_items.titles if state.known_items is not None else {}
    size = max(1, CELLS // len(state.vocabulary))
    lengths = _lengths(np.zeros((0, 1), np.float32) if vectors is None else vectors)
    choices = []
    for low in range(0, len(ids), size):
        chunk = ids[low : low + size]
        scores = _counted(state, chunk) if vectors is None else _cosines(vectors[chunk], vectors, lengths)
        # Neither placeholders and forgotten items nor the item itself is an answer.
        scores[:, hidden] = -np.inf
        scores[np.arange(len(chunk)), chunk] = -np.inf
        best_ids, best_scores = top_items(scores, k, [permitted] * len(chunk))
        for row, row_scores in zip(best_ids.tolist(), best_scores.tolist(), strict=True):
            pairs = [
                (state.vocabulary.value(id), score)
                for id, score in zip(row, row_scores, strict=True)
                if score > -np.inf
            ]
            choices.append([Choice(value, score, title=titles.get(value, "")) for value, score in pairs])
    return choices


def _counted(state: NextState, ids: Ids) -> Vectors:
    """Return (items, ids) similarities by counts or features; -inf where two items have nothing in common."""
    similarities = state.item_similarity().of_all(ids.astype(np.int64), np.arange(len(state.vocabulary)))
    return np.where(similarities > 0, similarities, -np.inf).astype(np.float32)


def _lengths(vectors: Vectors) -> Vectors:
    """Return (rows,) the length of each vector; the table is not copied, since it may be large."""
    return np.sqrt(np.einsum("ij,ij->i", vectors, vectors))


def _cosines(queries: Vectors, vectors: Vectors, lengths: Vectors) -> Vectors:
    """Return (queries, rows) cosines with vectors of these lengths."""
    cosines: Vectors = queries @ vectors.T / np.maximum(_lengths(queries)[:, None] * lengths, 1e-12)
    # Rounding may leave 1.0000001 of two equal vectors.
    return cosines.clip(-1, 1)


def _unknown(state: NextState, item: str) -> DataError:
    values = state.vocabulary.values
    hint = near(item, values) if len(values) <= MAX_COMPARED else ""
    return DataError(f"{quoted(item)} is not an item of the model; {hint or 'give one of its training data'}".rstrip())


def _encoder(state: NextState) -> ItemNetwork[object]:
    """Return the network, or that of an ensemble.

    Raises:
        SettingError: there is none.
    """
    model = require_trained(state.model)
    modules = model.modules() if is_network(model) else ()
    for module in modules:
        if isinstance(module, network.ItemNetwork):
            return module
    raise state.without_vectors("sessions", "core")


def session_vectors(state: NextState, histories: Histories) -> tuple[Vectors, Mask]:
    """Return the vector of each session after its last event, (histories, dim), and which sessions have one.

    Args:
        state: a model with an encoder.
        histories: encoded in its vocabulary, without unknown events; one without events has no vector.

    Raises:
        SettingError: the model has no encoder.
    """
    encoder = _encoder(state)
    evaluating(state.network)
    filled, windows, _, _ = latest_windows(histories, state.network.reach)
    vectors: Vectors | None = None
    for group in windows.groups(SESSIONS):
        with torch.no_grad():
            encoded = encoder.encode(windows.batch(group).to(state.device))[0].cpu().numpy()
        # The first batch shows the width.
        vectors = np.zeros((len(histories), encoded.shape[1]), np.float32) if vectors is None else vectors
        vectors[filled[group]] = encoded
    return np.zeros((len(histories), 0), np.float32) if vectors is None else vectors, histories.lengths > 0


def similar_sessions(
    state: NextState, records: Sequence[History], among: Sequence[History] | None, k: int
) -> list[list[SimilarSession]]:
    """Return the ``k`` sessions most similar to each record.

    Args:
        state: a model with an encoder.
        records: sessions; one without a known item has no similar ones.
        among: the sessions that are searched. [default: those that the model stores]
        k: sessions per record.

    Raises:
        SettingError: the model has no encoder, or stores no sessions and none are given.
    """
    _encoder(state)  # refused first
    if among is None:
        among = [*state.reservoir.histories.records()]
        if not among:
            raise SettingError(f"{state.model_name} stores no sessions; give those to search, such as the training log")
    queries, has_query = session_vectors(state, encoded(state, records))
    vectors, has_vector = session_vectors(state, encoded(state, among))
    similar: list[list[SimilarSession]] = [[] for _ in records]
    names = np.array([record.id for record in among])
    lengths = _lengths(vectors)
    rows = np.flatnonzero(has_query)
    for low in range(0, len(rows) if has_vector.any() else 0, size := max(1, CELLS // max(len(among), 1))):
        chunk = rows[low : low + size]
        cosines = _cosines(queries[chunk], vectors, lengths)
        cosines[:, ~has_vector] = -np.inf
        for row, record in enumerate(records[index] for index in chunk.tolist()):
            # A session that is in the searched log too would only find itself.
            if record.id:
                cosines[row, names == record.id] = -np.inf
        best_scores, best = topk(cosines, k)
        for index, positions, scores in zip(chunk.tolist(), best.tolist(), best_scores.tolist(), strict=True):
            similar[index] = [
                SimilarSession(among[at].values, score, among[at].id)
                for at, score in zip(positions, scores, strict=True)
                if score > -np.inf
            ]
    return similar


def encoded(state: NextState, records: Sequence[History]) -> Histories:
    """Return records in the ids of the model, without events that it does not know."""
    histories = Histories.of(records, state.vocabulary)
    return histories.keep(histories.ids >= FIRST)
