"""From sessions to ranked suggestions: written by the network, looked up in the log, filtered by the floor, scored.

What is considered for an answer is its *pool*: what the search wrote and, where ``retrieved`` asks for it or too little
was written, what the log holds. The network scores all of it. The order is that of the log-probability over the length
to the power of ``exponent`` or, where held-out sessions chose weights, of the weighted sum of features; a score is the
softmax of that over the pool. Nothing that the floor refuses is ever in a pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ensue.data.histories import Histories
from ensue.data.queries.rules import Normalisation, normalise, normalise_ascii
from ensue.errors import SettingError
from ensue.learning.state import evaluating
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, RepeatLast, Suggestions
from ensue.tasks.suggest.batch import PADDING, UNKNOWN, Batch, pad
from ensue.tasks.suggest.candidates import EVERY, FEATURES, Candidate, Pool, features, shares
from ensue.tasks.suggest.catalogue import RERANKER
from ensue.tasks.suggest.decoding import beam_search
from ensue.tasks.suggest.ensembles.consensus import order as by_consensus
from ensue.tasks.suggest.lookup import LookedUp, look_up
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.models.scoring import score
from ensue.tasks.suggest.state import SuggestState
from ensue.vocabulary import FIRST

GROUP = 32
"""Sessions that are answered at once."""


def clean(texts: Sequence[str], normalisation: Normalisation) -> list[str]:
    """Typed queries as they are learned; some may become empty."""
    if all(map(str.isascii, texts)):
        return [normalise_ascii(text, normalisation) for text in texts]
    return normalise(pl.Series("query", texts, dtype=pl.String), normalisation).to_list()


def clean_prefix(prefix: str, normalisation: Normalisation) -> str:
    """Normalise the text in the search box; a final space stays, since it ends a word."""
    (plain,) = clean([prefix], normalisation)
    return f"{plain} " if plain and prefix[-1:].isspace() else plain


def suggest(state: SuggestState, sessions: Histories, k: int, counting: str | None) -> Suggestions:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.suggest`."""
    if counting is not None and counting != RERANKER:
        return count(state, counting, sessions, k)
    lists = list(ranked(state, sessions, k, [""] * len(sessions)))
    flat = [choice for ranking in lists for choice in ranking]
    offsets = np.concatenate([[0], np.cumsum([len(ranking) for ranking in lists])]).astype(np.int64)
    texts = pl.Series("query", [text for text, _ in flat], dtype=pl.String)
    return Suggestions(texts, np.array([score for _, score in flat], np.float64), offsets)


def count(state: SuggestState, name: str, sessions: Histories, k: int) -> Suggestions:
    """Return the suggestions of a count-based model; only ``repeat-last`` shows queries below the threshold."""
    repeats = state.shared.repeats
    if name == "repeat-last":
        return RepeatLast().suggest(sessions, k)
    if name == "most-frequent-next":
        return state.following.suggest(sessions, k, typed=repeats)
    return state.shares.suggest(name, sessions, k, typed=repeats)


def ranked(
    state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]
) -> Iterator[list[tuple[str, float]]]:
    """For each session the best ``k`` texts with their scores; values and prefixes are normalised."""
    weighs = state.schedule is not None or state.model_name == RERANKER
    for low in range(0, len(sessions), GROUP):
        batch, batch_prefixes = sessions.select(slice(low, low + GROUP)), prefixes[low : low + GROUP]
        filled = np.flatnonzero(batch.lengths > 0) if weighs else np.empty(0, np.int64)
        filled_pools = iter(pools(state, batch.select(filled), k, [batch_prefixes[row] for row in filled.tolist()]))
        empty_rows = np.setdiff1d(np.arange(len(batch)), filled)
        counted_lists = iter(
            _counted(state, batch.select(empty_rows), k, [batch_prefixes[row] for row in empty_rows.tolist()])
        )
        filled_rows = set(filled.tolist())
        for row in range(len(batch)):
            yield _best(state, next(filled_pools), k) if row in filled_rows else next(counted_lists)


def _best(state: SuggestState, pool: Pool, k: int) -> list[tuple[str, float]]:
    sums = values(state, pool)
    if not np.isfinite(sums).all():
        raise SettingError(
            f"the scores of {state.model_name} are not finite numbers; fit it again with settings closer to the "
            "defaults"
        )
    order = by_consensus([candidate.text for candidate in pool], shares(sums), state.metadata.word_cost)
    sums[order[:1]] = sums.max(initial=-np.inf)  # what leads counts as much as the likeliest
    scores = shares(sums)
    return [(pool[position].text, float(scores[position])) for position in order[:k].tolist()]


def values(state: SuggestState, pool: Pool) -> Floats:
    """(candidates,) what they are ordered by."""
    return scored(pool, state.metadata, state.shared.exponent, state.metadata.tokens)


def scored(pool: Pool, order: Metadata, exponent: float, tokens: int) -> Floats:
    """(candidates,) what they are ordered by under the weights that some metadata hold."""
    if order.mix is None:
        return np.array([candidate.total / candidate.length**exponent for candidate in pool], np.float64)
    names = FEATURES if order.mixture is None else EVERY
    table = features(pool, exponent, order.mixture, tokens)
    sums: Floats = table @ np.array([order.mix.get(name, 0.0) for name in names])
    return sums


def pools(state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]) -> list[Pool]:
    """All that is considered for each of a few sessions, none of which is empty."""
    if not len(sessions):
        return []
    settings, following = state.shared, state.following
    typed_queries = [set() if settings.repeats else {*record.values} for record in sessions.records()]
    candidates: list[dict[str, Candidate]] = [{} for _ in typed_queries]
    memory: object = None
    if state.schedule is not None:
        batch = batch_of(state, sessions)
        with torch.no_grad():
            memory = evaluating(state.network).encode(batch)
        written = _write(state, batch, memory, k, prefixes)
        candidates = [
            {
                text: candidate
                for text, candidate in suggestions.items()
                if text not in typed_before and text.startswith(prefix)
            }
            for suggestions, typed_before, prefix in zip(written, typed_queries, prefixes, strict=True)
        ]
    counts = look_up(state, sessions, prefixes) if state.metadata.mixture is not None else [None] * len(candidates)
    lookups_of = _look_up(state, sessions, k, prefixes, [len(pool) for pool in candidates], counts)
    looked_up_texts = [
        [text for text in dict.fromkeys(lookups) if text not in typed_before] if lookups else []
        for lookups, typed_before in zip(lookups_of, typed_queries, strict=True)
    ]
    _add(state, memory, candidates, looked_up_texts)
    allowed_texts = state.floor.shows(text for pool in candidates for text in pool)
    follower_counts = _followed(following, sessions)
    for pool, lookups, followers, lookup in zip(candidates, looked_up_texts, follower_counts, counts, strict=True):
        ranks = {text: rank for rank, text in enumerate(lookups)}
        query_ids = [following.vocabulary.id(text) - FIRST for text in pool]
        for (text, candidate), query_id in zip(pool.items(), query_ids, strict=True):
            candidate.place = ranks.get(text, -1)
            candidate.followed = followers.get(query_id, 0)
            candidate.count = int(following.totals[query_id]) if query_id >= 0 else 0
        if lookup is not None:
            expected = lookup.expected(query_ids).tolist()
            for candidate, query_id, shares_of in zip(pool.values(), query_ids, expected, strict=True):
                candidate.place, candidate.expected = lookup.ranks.get(query_id, -1), tuple(shares_of)
    if state.metadata.mixture is not None:
        for pool, record in zip(candidates, sessions.records(), strict=True):
            similar = state.similarity.of(record.values, [*pool])
            for candidate, features in zip(pool.values(), similar.tolist(), strict=True):
                candidate.similar = tuple(features)
    return [[candidate for text, candidate in pool.items() if text in allowed_texts] for pool in candidates]


def batch_of(state: SuggestState, sessions: Histories) -> Batch:
    """Return the network's batch of some sessions."""
    settings, spell = state.shared, state.search_rules().spelling
    queries = (record.values[-settings.turns :] for record in sessions.records())
    return pad([[tokens[: settings.query_tokens] for tokens in spell(values)] for values in queries]).to(state.device)


def _write(
    state: SuggestState, batch: Batch, memory: object, k: int, prefixes: Sequence[str]
) -> Iterator[dict[str, Candidate]]:
    """Return the beam search's suggestions; equal texts of several tokenisations count once, by the likeliest."""
    rules, tokenizer = state.search_rules(), state.tokenizer
    stem = " " if tokenizer.kind == "bpe" else ""  # every piece of a query's first word has a space before it
    typed_prefix = (
        rules.prefixes.read([stem + prefix if prefix else "" for prefix in prefixes]) if any(prefixes) else None
    )
    suggestions = beam_search(
        state.network.writer, memory, batch, state.shared.search(k), banned=rules.banned, typed=typed_prefix
    )
    lengths = (suggestions.tokens != PADDING).sum(2).tolist()
    for tokens, sums, sizes in zip(suggestions.tokens.tolist(), suggestions.sums.tolist(), lengths, strict=True):
        pool: dict[str, Candidate] = {}
        for ids, total, size in zip(tokens, sums, sizes, strict=True):
            text = tokenizer.decode(ids) if total > -np.inf else ""
            if text and text.strip() == text and (text not in pool or total > pool[text].total):
                pool[text] = Candidate(text, total, size + 1, written=True)
        yield pool


def _look_up(
    state: SuggestState,
    sessions: Histories,
    k: int,
    prefixes: Sequence[str],
    written: Sequence[int],
    counted: Sequence[LookedUp | None],
) -> list[list[str]]:
    """Queries of the log for each session: ``retrieved`` of them, and enough for ``k`` where too few were written."""
    settings, following, retrieval = state.shared, state.following, state.retrieval
    assert retrieval is not None
    lists: list[list[str]] = [[] if lookup is None else [*lookup.texts] for lookup in counted]
    if settings.retrieved and state.metadata.mixture is None:  # a folder of before counting took part
        for row, query_ids in enumerate(
            retrieval.candidates(sessions, settings.retrieved, typed=settings.repeats).tolist()
        ):
            queries = (following.vocabulary.value(query_id + FIRST) for query_id in query_ids if query_id >= 0)
            lists[row] = [text for text in queries if text.startswith(prefixes[row])]
    short_rows = [row for row, size in enumerate(written) if size + len(lists[row]) < k]
    for row, texts in zip(short_rows, _frequent(following, sessions, k, prefixes, short_rows), strict=True):
        lists[row] += texts[: 2 * k - written[row]]
    return lists


def _frequent(
    following: MostFrequentNext, sessions: Histories, k: int, prefixes: Sequence[str], rows: Sequence[int]
) -> Iterator[list[str]]:
    """Return the followers of the last query, then popular queries; twice as many as requested."""
    lists = following.suggest(sessions.select(np.array(rows, np.int64)), 2 * k) if len(rows) else None
    for number, row in enumerate(rows):
        assert lists is not None
        followers = [text for text, _ in lists.of(number) if text.startswith(prefixes[row])]
        yield followers + (completions(following, prefixes[row], 2 * k) if prefixes[row] else [])


def completions(following: MostFrequentNext, prefix: str, k: int) -> list[str]:
    """The queries typed most among those that begin with a text."""
    fitting = following.queries.str.starts_with(prefix).to_numpy()[following.by_frequency]
    return following.queries.gather(following.by_frequency[fitting][:k]).to_list()


def _add(
    state: SuggestState, memory: object, pools: Sequence[dict[str, Candidate]], extra: Sequence[Sequence[str]]
) -> None:
    """Put what was looked up and not written into the pools, scored by the network if there is one."""
    missing = [[text for text in texts if text not in pool] for pool, texts in zip(pools, extra, strict=True)]
    longest = max(map(len, missing), default=0)
    if not longest:
        return
    tokens = tokens_of(state, missing)
    sums = torch.zeros(tokens.shape[:2], dtype=torch.float64)
    if state.schedule is not None:
        with torch.no_grad():
            sums = score(state.network.writer, memory, tokens.to(state.device)).double().cpu()
    lengths, unknown = (tokens != PADDING).sum(2).tolist(), (tokens == UNKNOWN).sum(2).tolist()
    for row, (pool, texts) in enumerate(zip(pools, missing, strict=True)):
        for column, text in enumerate(texts):
            total = float(sums[row, column])
            pool[text] = Candidate(text, total, lengths[row][column] + 1, written=False, unknown=unknown[row][column])


def tokens_of(state: SuggestState, lists: Sequence[Sequence[str]]) -> Tensor:
    """(rows, longest list, width) token ids of texts, 0 at padding."""
    spell = state.search_rules().spelling
    return pad([spell(texts) for texts in lists]).words


def _followed(following: MostFrequentNext, sessions: Histories) -> Iterator[dict[int, int]]:
    """For each session, how often which query followed its last one."""
    for row in range(len(sessions)):
        last_query = sessions.vocabulary.value(int(sessions.ids[sessions.offsets[row + 1] - 1]))
        query_id = following.vocabulary.id(last_query) - FIRST
        entries = slice(*following.rows[query_id : query_id + 2].tolist()) if query_id >= 0 else slice(0)
        yield dict(zip(following.followers[entries].tolist(), following.counts[entries].tolist(), strict=True))


def _counted(
    state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]
) -> Iterator[list[tuple[str, float]]]:
    """Return count-based suggestions; scores are normalised over those shown."""
    following, repeats = state.following, state.shared.repeats
    if not len(sessions):
        return
    is_baseline = state.schedule is None and state.model_name != RERANKER
    suggestions = count(state, state.model_name if is_baseline else "popular", sessions, k)
    lists = [suggestions.of(row) for row in range(len(sessions))]
    if state.model_name == "repeat-last":
        popular = count(state, "popular", sessions, k)
        lists = [ranking if sessions.lengths[row] else popular.of(row) for row, ranking in enumerate(lists)]
    allowed_texts = state.floor.shows((text for choices in lists for text, _ in choices))
    for row, choices in enumerate(lists):
        allowed = {text: score for text, score in choices if text in allowed_texts and text.startswith(prefixes[row])}
        if prefixes[row] and state.model_name != "repeat-last":
            lowest, session_queries = min(allowed.values(), default=1.0), set(sessions.record(row).values)
            more = (
                text
                for text in completions(following, prefixes[row], k + len(session_queries))
                if repeats or text not in session_queries
            )
            allowed |= {text: lowest / (2 + place) for place, text in enumerate(more) if text not in allowed}
        best = list(allowed.items())[:k]
        total = sum(score for _, score in best)
        yield [(text, score / total) for text, score in best]
