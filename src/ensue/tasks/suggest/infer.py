"""From sessions to ranked suggestions: written by the network, looked up in the log, filtered by the floor, scored.

The candidates of an answer are what the search wrote and, where ``retrieved`` asks for it or too little was written,
queries of the log. The network scores all of them. The order is that of the log-probability over the length to the
power of ``exponent`` or, where held-out sessions chose weights, of the weighted sum of features; a score is the softmax
of that over the candidates. Nothing below the k-anonymity threshold is ever a candidate.

Queries of the log that are considered for a session, from all count-based models, and the probability by each model.

Lists of retrieval, of each condition (:mod:`ensue.tasks.suggest.baselines.shares`) and of popular queries take turns
until there are twice ``retrieved``. Where a prefix is typed, only its completions are considered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Ids, Index, Mask
from ensue.data.queries.rules import Normalisation, normalise, normalise_ascii
from ensue.errors import SettingError
from ensue.lazy import torch
from ensue.learning.state import evaluating, require_trained
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, RepeatLast, Suggestions, last_of_each
from ensue.tasks.suggest.baselines.shares import CONDITIONS, SOURCES
from ensue.tasks.suggest.batch import PADDING, UNKNOWN, PaddedQueries, pad, padded
from ensue.tasks.suggest.candidates import ALL_FEATURES, NETWORK, CandidateRows, features, first_of_each, shares
from ensue.tasks.suggest.catalogue import RERANKER
from ensue.tasks.suggest.ensembles.consensus import order as by_consensus
from ensue.tasks.suggest.metadata import SuggesterMetadata
from ensue.tasks.suggest.similarity import SIMILAR
from ensue.tasks.suggest.state import SuggestState
from ensue.text.encoder import Vectors
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.vocabulary import FIRST


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Counts for some sessions.

    Attributes:
        queries: for each session the queries that are considered, in the order of their turn.
        retrieved: (sessions, retrieved) queries by retrieval, best first; negative where there is no more.
        last: (sessions,) the last query of each.
        following: the queries of the log.
        conditional: (conditions x sessions, queries) probabilities given each condition; the rest of a row, up to 1,
            is divided over all queries.
    """

    queries: list[list[int]]
    retrieved: Ids
    last: Index
    following: MostFrequentNext
    conditional: SparseRows

    def expected(self, sessions: Index, queries: Index) -> Floats:
        """(pairs, ``SOURCES``) the probability of each query in its session; -1 is one as if it were typed half."""
        shares = self.following.shares
        in_log = queries >= 0
        popular = np.full(len(queries), 0.5 / (self.following.totals.sum() + 1))
        popular[in_log] = shares[queries[in_log]]
        remainder = 1 - np.bincount(self.conditional.owners(), self.conditional.data, self.conditional.shape[0])
        # The rows of a condition follow those of the one before it, one per session.
        rows = np.arange(len(CONDITIONS))[:, None] * len(self.last) + sessions
        probabilities = self.conditional.at(rows, np.where(in_log, queries, 0)) * in_log + remainder[rows] * popular
        return np.concatenate([probabilities, popular[None]]).T

    def ranks(self, sessions: Index, queries: Index) -> Index:
        """(pairs,) the rank of each query among those retrieved for its session; -1 for those not retrieved."""
        size = len(self.following.shares) + 1
        rows, ranks = np.nonzero(self.retrieved >= 0)
        table = sparse_rows(rows, self.retrieved[rows, ranks], ranks + 1.0, (len(self.retrieved), size))
        return table.at(sessions, queries).astype(np.int64) - 1

    def followed(self, sessions: Index, queries: Index) -> Index:
        """(pairs,) how often each query followed the last one of its session."""
        size = len(self.following.shares) + 1
        owners, followers, counts = self.following.follow(self.last, np.full(len(self.last), size))
        table = sparse_rows(owners, followers, counts, (len(self.last), size))
        return table.at(sessions, queries).astype(np.int64)


def look_up(state: SuggestState, sessions: Histories, prefixes: Sequence[str]) -> LookedUp:
    """Look up the counts for a few sessions, none of which is empty.

    Args:
        state: trained.
        sessions: what was typed so far.
        prefixes: the text in the search box of each.
    """
    settings = state.shared
    following = state.following
    retrieval = require_trained(state.retrieval)
    query_ids, texts = following.query_ids(sessions)
    retrieved = retrieval.candidates(sessions, settings.retrieved, typed=settings.repeats, located=(query_ids, texts))
    conditional = state.shares.given(CONDITIONS, sessions, query_ids)
    looked_up = LookedUp([], retrieved, last_of_each(sessions, query_ids), following, conditional)
    size = 2 * settings.retrieved
    popular = following.by_frequency[:size]
    likely = _highest_of_rows(conditional, size)
    for row, prefix in enumerate(prefixes):
        lists = [retrieved[row], *likely[row :: len(prefixes)], popular]
        if prefix:
            lists = [_completions(looked_up, row, prefix, size)]
        # A column per list, -1 below its end: read row by row, the lists take turns.
        columns = np.full((max(map(len, lists)), len(lists)), -1, np.int64)
        for number, queries in enumerate(lists):
            columns[: len(queries), number] = queries
        looked_up.queries.append([*dict.fromkeys(columns[columns >= 0].tolist())][:size])
    return looked_up


def _highest_of_rows(table: SparseRows, size: int) -> list[npt.NDArray[np.integer]]:
    """For each row the columns of its highest values, ties in rising order."""
    rows: list[npt.NDArray[np.integer]] = []
    for low, high in pairwise(table.indptr.tolist()):
        columns, values = table.indices[low:high], np.round(table.data[low:high], 12)
        if len(values) > size:  # ties with the last one stay for the sort
            is_high = values >= np.partition(values, -size)[-size]
            columns, values = columns[is_high], values[is_high]
        rows.append(columns[np.lexsort((columns, -values))[:size]])
    return rows


def _completions(looked_up: LookedUp, row: int, prefix: str, size: int) -> Index:
    """The queries that begin with a text, those of the highest mean probability first."""
    queries = np.flatnonzero(looked_up.following.queries.str.starts_with(prefix).to_numpy()).astype(np.int64)
    sums = looked_up.expected(np.full(len(queries), row), queries).sum(1)
    return queries[np.lexsort((queries, -np.round(sums, 12)))[:size]]


GROUP = 64
"""Sessions that are answered at once."""
Rankings = list[list[tuple[str, float]]]
"""For each session its suggestions and their scores, best first."""


def clean(texts: Sequence[str], normalisation: Normalisation) -> list[str]:
    """Typed queries as they are learned; some may become empty."""
    # ASCII needs no Unicode tables: a few texts are normalised faster without columns.
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
    lists = ranked(state, sessions, k, [""] * len(sessions))
    # Lists of texts and scores to columns, one list after the other.
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


def ranked(state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]) -> Rankings:
    """For each session the best ``k`` texts with their scores; values and prefixes are normalised."""
    weighs = state.schedule is not None or state.model_name == RERANKER
    # Nothing can be attended to in an empty session: it gets what is popular.
    is_weighed = (sessions.lengths > 0) & weighs
    lists: Rankings = [[] for _ in prefixes]
    for rank, rows in ((_weighed, np.flatnonzero(is_weighed)), (_counted, np.flatnonzero(~is_weighed))):
        rankings = rank(state, sessions.select(rows), k, [prefixes[row] for row in rows.tolist()])
        for row, ranking in zip(rows.tolist(), rankings, strict=True):
            lists[row] = ranking
    return lists


def _weighed(state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]) -> Rankings:
    """Return the best candidates of sessions, none of which is empty."""
    candidates = consider(state, sessions, k, prefixes)
    owners = candidates.owners
    sums = values(state, candidates)
    if not np.isfinite(sums).all():
        raise SettingError(
            f"the scores of {state.model_name} are not finite numbers; fit it again with settings closer to the "
            "defaults"
        )
    positions = by_consensus(candidates.texts.tolist(), shares(sums, owners), owners, state.metadata.word_cost)
    highest = np.full(len(sessions), -np.inf)
    # The highest score of each session, for the candidate that consensus puts first.
    np.maximum.at(highest, owners, sums)
    leading = positions[first_of_each(owners)]
    sums[leading] = highest[owners[leading]]  # what leads counts as much as the likeliest
    texts, scores = candidates.texts[positions].tolist(), shares(sums, owners)[positions].tolist()
    # Owners never fall: the candidates of session i are between its bounds.
    ends = np.searchsorted(owners, np.arange(len(sessions) + 1)).tolist()
    return [
        [*zip(texts[low : min(high, low + k)], scores[low : min(high, low + k)], strict=True)]
        for low, high in pairwise(ends)
    ]


def values(state: SuggestState, candidates: CandidateRows) -> Floats:
    """(candidates,) what they are ordered by."""
    return scored(candidates, state.metadata, state.shared.exponent, state.metadata.tokens)


def scored(candidates: CandidateRows, order: SuggesterMetadata, exponent: float, tokens: int) -> Floats:
    """(candidates,) what they are ordered by under the weights that some metadata hold."""
    if order.mix is None or order.mixture is None:
        return candidates.totals / candidates.lengths**exponent
    table = features(candidates, exponent, order.mixture, tokens)
    sums: Floats = table @ np.array([order.mix.get(name, 0.0) for name in ALL_FEATURES])
    return sums


def shortlisted(candidates: CandidateRows, order: SuggesterMetadata, exponent: float, tokens: int, size: int) -> Mask:
    """Return which candidates the network scores, (candidates,).

    Those that the search wrote are scored already. Of the others the best ``size`` of each session are scored, by the
    learned order without the network's probability, which is not known yet.
    """
    assert order.mixture is not None
    unscored = replace(candidates, totals=np.zeros(len(candidates)))
    scores = scored(unscored, replace(order, mixture={**order.mixture, NETWORK: 0.0}), exponent, tokens)
    # Best first within each session, those written behind all others; a rank is the distance from the session's first.
    best_first = np.lexsort((-scores, candidates.written, candidates.owners))
    firsts = first_of_each(candidates.owners)
    sizes = np.diff(np.append(firsts, len(candidates)))
    is_scored = candidates.written.copy()
    is_scored[best_first] |= np.arange(len(candidates)) - np.repeat(firsts, sizes) < size
    return is_scored


def consider(state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]) -> CandidateRows:
    """All candidates of some sessions, none of which is empty.

    Sessions of like size are encoded and searched together.
    """
    tokens = spelled(state, sessions)
    by_size = np.argsort([sum(map(len, queries)) for queries in tokens], kind="stable").astype(np.int64)
    groups = [by_size[low : low + GROUP] for low in range(0, len(by_size), GROUP)] or [by_size]
    considered = []
    for rows in groups:
        numbers = rows.tolist()
        group_tokens = [tokens[row] for row in numbers]
        group_prefixes = [prefixes[row] for row in numbers]
        considered.append(_consider(state, sessions.select(rows), group_tokens, k, group_prefixes))
    return CandidateRows.join(considered, groups)


def _consider(
    state: SuggestState, sessions: Histories, tokens: Sequence[list[list[int]]], k: int, prefixes: Sequence[str]
) -> CandidateRows:
    """Return the candidates of a few sessions: first those written, then those looked up, which the network scores.

    Args:
        state: trained.
        sessions: none of them is empty.
        tokens: of the latest queries of each, see :func:`spelled`.
        k: number of suggestions.
        prefixes: the text in the search box of each.
    """
    following = state.following
    typed = [record.values for record in sessions.records()]
    memory = None
    written = [dict[str, tuple[float, int]]() for _ in typed]
    # What the user typed already is no suggestion, unless repeats are allowed.
    excluded = [set() if state.shared.repeats else {*values} for values in typed]
    if state.schedule is not None and len(sessions):
        batch = padded(tokens)
        memory = state.generator.encode(batch)
        written = [
            {text: pair for text, pair in pool.items() if text not in session and text.startswith(prefix)}
            for pool, session, prefix in zip(_write(state, batch, memory, k, prefixes), excluded, prefixes, strict=True)
        ]
    counts = None if state.metadata.mixture is None else look_up(state, sessions, prefixes)
    num_written = [len(pool) for pool in written]
    added = [
        [text for text in dict.fromkeys(texts) if text not in session and text not in pool]
        for texts, session, pool in zip(
            _looked_up(following, sessions, k, prefixes, num_written, counts), excluded, written, strict=True
        )
    ]
    # One flat list for all sessions: first all that was written, then all of the log.
    texts = [*chain.from_iterable(written), *chain.from_iterable(added)]
    added_tokens = state.search_rules().spelling(texts[sum(num_written) :])
    pairs = [pair for pool in written for pair in pool.values()]
    owners = np.concatenate(
        [np.repeat(np.arange(len(typed)), sizes) for sizes in (num_written, [*map(len, added)])]
    ).astype(np.int64)
    # Ids in the log; -1 for a text that is not among its queries, whose counts are 0.
    queries = following.vocabulary.ids(texts).astype(np.int64) - FIRST
    nothing = np.zeros(len(texts), np.int64)
    candidates = CandidateRows(
        owners=owners,
        texts=np.array(texts, np.object_),
        totals=np.array([total for total, _ in pairs] + [0.0] * len(added_tokens), np.float64),
        lengths=np.array([length for _, length in pairs] + [len(ids) + 1 for ids in added_tokens], np.int64),
        written=np.arange(len(texts)) < len(pairs),
        unknown=np.array([0] * len(pairs) + [ids.count(UNKNOWN) for ids in added_tokens], np.int64),
        ranks=nothing - 1 if counts is None else counts.ranks(owners, queries),
        followed=nothing if counts is None else counts.followed(owners, queries),
        counts=np.append(following.totals, 0)[queries],
        expected=np.zeros((len(owners), len(SOURCES))) if counts is None else counts.expected(owners, queries),
        similar=np.zeros((len(owners), len(SIMILAR))) if counts is None else state.similarity.of(typed, texts, owners),
    )
    shown_texts = state.floor.shows(texts)
    is_shown = np.array([text in shown_texts for text in texts], np.bool_)
    # Back to session by session: a stable sort leaves the written ones of a session in front.
    by_session = np.argsort(owners, kind="stable")
    candidates = candidates.select(by_session[is_shown[by_session]])
    return candidates if memory is None else _score(state, memory, candidates, len(typed), k)


def _looked_up(
    following: MostFrequentNext,
    sessions: Histories,
    k: int,
    prefixes: Sequence[str],
    num_written: Sequence[int],
    counts: LookedUp | None,
) -> list[list[str]]:
    """Queries of the log for each session: those of ``counts``, and enough for ``k`` where too few were written."""
    value = following.vocabulary.value
    lists = [
        [] if counts is None else [value(query + FIRST) for query in counts.queries[row]]
        for row in range(len(sessions))
    ]
    # Too few candidates for k: the most frequent followers and popular queries fill up.
    short = [row for row, texts in enumerate(lists) if num_written[row] + len(texts) < k]
    for row, texts in zip(short, _frequent(following, sessions, k, prefixes, short), strict=True):
        lists[row] += texts[: 2 * k - num_written[row]]
    return lists


def spelled(state: SuggestState, sessions: Histories) -> list[list[list[int]]]:
    """Return the tokens that the network reads of the latest queries of each session."""
    settings = state.shared
    spell = state.search_rules().spelling
    queries = (record.values[-settings.turns :] for record in sessions.records())
    return [[tokens[: settings.query_tokens] for tokens in spell(values)] for values in queries]


def session_vectors(state: SuggestState, sessions: Histories) -> tuple[Vectors, Mask]:
    """Return a vector of each session, (sessions, dim), and which sessions have one: those with a query."""
    rows = np.flatnonzero(sessions.lengths)
    tokens = spelled(state, sessions.select(rows))
    evaluating(state.network)
    chunks = []
    for low in range(0, len(rows), GROUP):
        batch = pad(tokens[low : low + GROUP]).to(state.device)
        with torch.no_grad():
            chunks.append(state.network.encode(batch).vectors().cpu().numpy())
    width = chunks[0].shape[1] if chunks else 0
    vectors = np.zeros((len(sessions), width), np.float32)
    if chunks:
        vectors[rows] = np.concatenate(chunks)
    return vectors, sessions.lengths > 0


def _write(
    state: SuggestState, queries: PaddedQueries, memory: object, k: int, prefixes: Sequence[str]
) -> Iterator[dict[str, tuple[float, int]]]:
    """For each session the texts that the beam search writes, with their log-probability and tokens, the end included.

    Equal texts of several tokenisations count once, by the likeliest.
    """
    rules = state.search_rules()
    tokenizer = state.tokenizer
    stem = " " if tokenizer.kind == "bpe" else ""  # every piece of a query's first word has a space before it
    typed_prefix = (
        rules.prefixes.read([stem + prefix if prefix else "" for prefix in prefixes]) if any(prefixes) else None
    )
    suggestions = state.generator.search(memory, queries, state.shared.search(k), rules.banned, typed_prefix)
    lengths = (suggestions.tokens != PADDING).sum(2).tolist()
    for tokens, sums, sizes in zip(suggestions.tokens.tolist(), suggestions.sums.tolist(), lengths, strict=True):
        pool: dict[str, tuple[float, int]] = {}
        for ids, total, size in zip(tokens, sums, sizes, strict=True):
            text = tokenizer.decode(ids) if total > -np.inf else ""
            if text and text.strip() == text and (text not in pool or total > pool[text][0]):
                pool[text] = total, size + 1
        yield pool


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
    # By falling frequency, so that the first k that fit are the most frequent.
    fitting = following.queries.str.starts_with(prefix).to_numpy()[following.by_frequency]
    return following.queries.gather(following.by_frequency[fitting][:k]).to_list()


def _score(state: SuggestState, memory: object, candidates: CandidateRows, num_sessions: int, k: int) -> CandidateRows:
    """Return the candidates with the network's log-probability of those looked up, without those not worth it."""
    metadata = state.metadata
    if metadata.shortlist and metadata.mix is not None:
        size = max(metadata.shortlist, k)
        candidates = candidates.select(shortlisted(candidates, metadata, state.shared.exponent, metadata.tokens, size))
    unscored = np.flatnonzero(~candidates.written)
    if not len(unscored):
        return candidates
    tokens = state.search_rules().spelling(candidates.texts[unscored].tolist())
    sizes = np.bincount(candidates.owners[unscored], minlength=num_sessions)
    # Flat candidates to one list per session, padded for the decoder.
    ends = np.cumsum(sizes).tolist()
    sums = state.generator.score(memory, padded([tokens[low:high] for low, high in pairwise([0, *ends])]).words)
    # (sessions, choices) log-probabilities, of which the first ``sizes`` of each row are of candidates.
    totals = candidates.totals.copy()
    totals[unscored] = sums[np.arange(sums.shape[1]) < sizes[:, None]]
    return replace(candidates, totals=totals)


def _counted(state: SuggestState, sessions: Histories, k: int, prefixes: Sequence[str]) -> Rankings:
    """Return count-based suggestions; scores are normalised over those shown."""
    following = state.following
    repeats = state.shared.repeats
    if not len(sessions):
        return []
    is_baseline = state.schedule is None and state.model_name != RERANKER
    suggestions = count(state, state.model_name if is_baseline else "popular", sessions, k)
    lists = [suggestions.of(row) for row in range(len(sessions))]
    if state.model_name == "repeat-last":
        popular = count(state, "popular", sessions, k)
        lists = [ranking if sessions.lengths[row] else popular.of(row) for row, ranking in enumerate(lists)]
    allowed_texts = state.floor.shows((text for choices in lists for text, _ in choices))
    rankings = []
    for row, choices in enumerate(lists):
        allowed = {text: score for text, score in choices if text in allowed_texts and text.startswith(prefixes[row])}
        if prefixes[row] and state.model_name != "repeat-last":
            # Completions rank behind all that followed: their scores fall from the lowest.
            lowest = min(allowed.values(), default=1.0)
            session_queries = set(sessions.record(row).values)
            further = (
                text
                for text in completions(following, prefixes[row], k + len(session_queries))
                if repeats or text not in session_queries
            )
            allowed |= {text: lowest / (2 + rank) for rank, text in enumerate(further) if text not in allowed}
        best = list(allowed.items())[:k]
        total = sum(score for _, score in best)
        rankings.append([(text, score / total) for text, score in best])
    return rankings
