"""Training of a suggester: k-anonymity filter, tokens and counts, the network, then the ensemble's weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.data.histories import append_histories, dated, is_later
from ensue.data.queries import Queries, hold_out_queries, require_pairs
from ensue.data.queries.rules import normalise
from ensue.data.queries.tokens import SPECIAL, Kind, QueryTokenizer
from ensue.data.scripts import UNSPACED
from ensue.errors import DataError
from ensue.lazy import WITHOUT_TORCH, has_torch, lazy, require_torch, torch
from ensue.learning.life import USED, Example, Split, of_history, train_network
from ensue.lines import plural
from ensue.records import History
from ensue.schedule import RISING, Schedule
from ensue.tasks.suggest.catalogue import COUNTING, RERANKER
from ensue.tasks.suggest.dataset import CELLS, Sessions
from ensue.tasks.suggest.ensembles.reranker import learn_counted_order, learn_order
from ensue.tasks.suggest.metadata import SuggesterMetadata
from ensue.tasks.suggest.privacy import bounded, people_of, prints, shared_steps
from ensue.tasks.suggest.state import SuggestState
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report, Reports
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from ensue.training import loop
else:
    loop = lazy("ensue.training.loop")

LEARNED_ORDER = (
    "found_in_pool", "mixture", "mix", "shortlist", "validation_mrr", "word_cost", "validation_bleu",
)  # fmt: skip
"""Metadata from held-out sessions that a refit on the whole log takes over."""
MIN_TARGETS = 1000
"""Held-out targets that say how to order suggestions, if ..."""
MIN_SHARE = 0.1
MAX_SHARE = 1 / 3
"""... they are no more than a third of the log; of a large log it is a tenth. All are learned in the end."""


def split(state: SuggestState, data: Queries, valid: Queries | None) -> Split[Queries]:
    """Return the file's own parts, or hold out the sessions that begin last."""
    if state.schedule is not None and not (state.chooses and state.shared.retrieved):
        require_torch(f"model {state.model_name}")
    require_pairs(data, "training data")
    data = bounded(data, state.shared.min_users)
    names = set(data.parts.unique()) if len(data.parts) else set()
    has_parts = "train" in names and len(names) > 1
    train = data.part("train") if has_parts else data
    rule = "as marked in the file: trained on the sessions of train only" if has_parts else ""
    refit = state.schedule is not None and state.schedule.refit
    if state.schedule is None:
        result = Split(train, None, rule=rule)
    elif valid is not None:
        result = _with_validation(train, valid, rule, refit=refit)
    elif has_parts and "valid" in names:
        held_out = data.part("valid", novel=bool(data.novel[(data.parts == "valid").to_numpy()].any()))
        kind = " that the file marks as novel" if len(held_out) < len(data.part("valid")) else ""
        rule = f"as marked in the file: {plural(len(train), 'session')} in train, {len(held_out):,} in valid{kind}"
        full = data.select(data.parts.is_in(["train", "valid"]).to_numpy()) if refit else None
        result = Split(train, held_out, full, f"{rule}, used for the final training" if refit else rule)
    else:
        num_targets = int(np.maximum(train.histories.lengths - 1, 0).sum())
        # A tenth of a large log has targets enough; a small log holds out up to a third, if a refit trains on all.
        share = min(max(MIN_SHARE, MIN_TARGETS / max(num_targets, 1)), MAX_SHARE if refit else MIN_SHARE)
        earlier, held_out, rule = hold_out_queries(train, share, absolute=dated(train.histories))
        result = Split(earlier, held_out, train if refit else None, rule)
    require_pairs(result.train, "training data")
    if result.valid is not None:
        require_pairs(result.valid, "validation data")
    return result


def _with_validation(train: Queries, valid: Queries, rule: str, *, refit: bool) -> Split[Queries]:
    """Return given validation data as such; the final training includes it if it is later.

    People in both logs would reach the k-anonymity threshold twice, so with users it is not included.
    """
    full = None
    if refit:
        reason = ""
        if len(train.users) or len(valid.users):
            reason = "users in both logs cannot be detected"
        elif not is_later(valid.histories, train.histories):
            reason = "not later than the training data"
        else:
            full = Queries(append_histories(train.histories, valid.histories))
        use = f"not used for the final training: {reason}" if reason else USED
        rule = "; ".join(filter(None, [rule, f"{len(valid):,} given, {use}"]))
    return Split(train, valid, full, rule, (f"validation data: {rule}",) if rule else ())


def train(state: SuggestState, split: Split[Queries], checkpoint: Checkpoint) -> Reports[Split[Queries]]:
    """Count the training data, train a network if one is set, and select by the held-out sessions.

    A network costs hundreds of times what counting does. Where not even a ranking learned from all sessions is
    significantly better than counting, little can be learned, and ``best`` trains none.
    """
    count_based = None
    # Counting all sessions is cheap next to a network, and may show that none is worth training.
    if state.chooses and state.shared.retrieved:
        if not has_torch():
            yield Report("fit", 0, 0, 0, 0, 0.0, 0.0, note=f"warning: {WITHOUT_TORCH}")
        full = split.train if split.full is None else split.full
        learn_words(state, full)
        if not _is_network_worthwhile(state, full):
            state.metadata.notes += split.notes
            return replace(split, full=None)
        count_based = state.metadata
    learn_words(state, split.train)
    if state.schedule is None:
        state.model = state.retrieval
        if state.model_name == RERANKER:
            _is_network_worthwhile(state, split.train)
        return split
    assert split.valid is not None
    yield from _train(state, split.train, split.valid, "fit", checkpoint)
    leader = learn_order(state, split.valid, count_based)
    if leader is not None:
        _settle(state, leader, count_based if leader == RERANKER else None, "the network mixed with it")
    return split


def refit(state: SuggestState, full: Queries, checkpoint: Checkpoint) -> Iterator[Report]:
    """Count all sessions, and train the network on them for as many epochs as were best."""
    held_out = state.metadata
    learn_words(state, full)
    metadata = state.metadata
    for name in LEARNED_ORDER:
        setattr(metadata, name, getattr(held_out, name))
    if state.schedule is None:
        _use_counts(state)
    else:
        yield from _train(state, full, None, "refit", checkpoint.sibling(".refit"), held_out.epochs)
        metadata.epochs, metadata.validation_loss = held_out.epochs, held_out.validation_loss
    metadata.notes += [note for note in held_out.notes if note not in metadata.notes]


def finish(state: SuggestState, split: Split[Queries]) -> None:
    """Nothing is left to do."""


def example(state: SuggestState, valid: Queries, index: int) -> Example | None:
    """Return a step that enough people made and nothing else: the last one of a session, without its times."""
    if state.schedule is None:
        return None
    session = valid.histories.record(index)
    if state.shared.min_users == 1:
        return of_history(session) if state.floor.queries.issuperset(session.values) else None
    last = History(session.values[-2:])
    following = state.following
    (earlier, later) = (state.following.vocabulary.id(query) for query in last.values)
    # A step is shown only if the follower is stored, which takes ``min_users`` people.
    _, followers, _ = following.follow(np.array([earlier - FIRST]), np.array([len(following.queries)]))
    return of_history(last) if later - FIRST in followers else None


def _is_network_worthwhile(state: SuggestState, data: Queries) -> bool:
    """Learn a ranking without a network; unless a network may be better, the best such model is the result."""
    leader, is_better = learn_counted_order(state, data)
    if (
        is_better
        and has_torch()
        and state.model_name != RERANKER
        and len(state.windows(shared_steps(data, state.floor)))
    ):
        return True
    state.metadata.held_out = f"each fifth of {len(data):,} sessions, scored by counts of the others"
    _settle(state, leader, state.metadata if leader == RERANKER else None, "the ranking model")
    return False


def _settle(state: SuggestState, leader: str, order: SuggesterMetadata | None, beaten: str) -> None:
    """Become the model that ranked held-out sessions best, without a network.

    Args:
        state: counted, or trained.
        leader: its name.
        order: where its weights stand; ``None`` for a model that has none.
        beaten: what it was compared with, for people.
    """
    metadata = state.metadata
    mrr = metadata.validation_mrr
    assert mrr is not None
    if leader in mrr:
        metadata.notes.append(
            f"this folder is {leader}: its MRR@10 on held-out sessions is {100 * mrr[leader]:.2f}, that of "
            f"{beaten} {100 * mrr['mixed']:.2f}"
        )
    elif state.model_name != leader:
        best = max(mrr[name] for name in COUNTING)
        metadata.notes.append(
            f"this folder is {leader}, without a network: its MRR@10 on held-out sessions is "
            f"{100 * mrr['mixed']:.2f}, that of the best baseline model {100 * best:.2f}"
        )
    for name in LEARNED_ORDER:
        if order is not None or name != "validation_mrr":
            setattr(metadata, name, getattr(order or SuggesterMetadata, name))
    state.model_name = leader
    state.settings = None
    state.schedule = None
    state.optimizer = None
    _use_counts(state)


def _use_counts(state: SuggestState) -> None:
    """Answer from the counts; topics are for the reranker alone."""
    assert state.retrieval is not None
    if state.model_name != RERANKER:
        state.retrieval = state.retrieval.without_topics()
    state.model = state.retrieval


def learn_words(state: SuggestState, data: Queries) -> None:
    """Take the floor, the tokens, the counts and the metadata from the training data."""
    settings = state.shared
    histories = data.histories
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    state.count(data, settings.min_users)
    floor = state.floor
    common = floor.common(values)
    nothing = "no query was" if floor.words else "no query and no word was"
    if not floor.queries and (state.schedule is None or not (common != "").any()):
        raise DataError(
            f"training data: {nothing} typed by {settings.min_users} {floor.counted}, so nothing could ever be "
            "suggested; give a larger log, or lower --min-users (min_users)"
        )
    typed = histories.ids.astype(np.int64) - FIRST
    # Repeated queries of one person must not decide which words the network knows.
    if settings.min_users > 1:  # each person counts once
        people = people_of(data)[histories.sequence_index()]
        typed = pl.DataFrame({"query": typed, "person": people}).unique()["query"].to_numpy()
    counts = np.bincount(typed, minlength=len(values))
    state.tokenizer = QueryTokenizer.fit(
        common, counts, kind=_kind(settings.tokens, common), min_count=settings.min_count, size=settings.vocabulary_size
    )
    state.train_prints = np.unique(prints(shared_steps(data, floor)))
    used = values.gather(np.unique(histories.ids).astype(np.int64) - FIRST)
    state.metadata = SuggesterMetadata(
        sessions=len(data),
        queries=len(histories.ids),
        distinct=len(used),
        tokens=len(state.tokenizer) - len(SPECIAL),
        normalisation="paper" if (normalise(used, "paper") == used).all() else "plain",
        notes=[],
    )


def _kind(tokens: str, queries: pl.Series) -> Kind:
    """Return what the queries are cut into: of Han, kana, Thai and the like a whole query would be one word."""
    num_unspaced = int(queries.str.contains(f"[{UNSPACED}]").sum())
    # In scripts without spaces a whole query would be one word, so such logs are cut into pieces.
    is_unspaced = 2 * num_unspaced > int((queries != "").sum())
    return "bpe" if tokens == "bpe" or (tokens == "auto" and is_unspaced) else "words"


def note_cuts(state: SuggestState, data: Sessions) -> None:
    """Say what the caps did."""
    settings = state.shared
    notes = state.metadata.notes
    if data.cut_sessions:
        notes.append(
            f"trained in windows: {plural(data.cut_sessions, 'session')} of more than {settings.turns} queries"
        )
    if data.cut_queries:
        notes.append(f"cut to {settings.query_tokens} tokens: {plural(data.cut_queries, 'query', 'queries')}")


def fitted(schedule: Schedule, rows: int, targets: int) -> Schedule:
    """A schedule for so many windows and queries, in which the step size rises in a tenth of all steps at most.

    Training stops on a plateau long before the last step, and of few steps none may be left after the paper's rise.
    """
    stretched = schedule.fitted(rows, targets)
    if stretched.warm_up is None:
        return stretched
    # Steps of all epochs; the division rounds up, for the last batch of an epoch may be smaller.
    steps = stretched.epochs * -(-rows // stretched.batch_size)
    return replace(stretched, warm_up=max(1, min(stretched.warm_up, steps // RISING)))


def _train(
    state: SuggestState,
    part: Queries,
    held: Queries | None,
    stage: str,
    checkpoint: Checkpoint,
    epochs: int | None = None,
) -> Reports[None]:
    """Train the network from its beginning; it ends with its best weights, or after so many ``epochs``."""
    assert state.schedule is not None
    torch.manual_seed(state.seed)
    state.model = state.new_network()
    network = state.module
    state.optimizer = state.new_optimizer()
    data = state.windows(shared_steps(part, state.floor))
    if not len(data):
        raise DataError(
            f"training data: no step from one query to the next was made by {state.floor.min_users} "
            f"{state.floor.counted}, so a network has no training data; fit a count-based model (--model reranker), "
            "or lower --min-users (min_users)"
        )
    watched = None if held is None else state.windows(held.histories)
    note_cuts(state, data)
    schedule = fitted(state.schedule, len(data), int((data.lengths - 1).sum()))
    if epochs is not None:
        schedule = replace(schedule, epochs=epochs)
    yield from train_network(
        state,
        data,
        None if watched is None else lambda: loop.mean_loss(network, watched, CELLS),
        schedule,
        arrays=[*data.arrays(), *(watched.arrays() if watched is not None else ())],
        checkpoint=checkpoint,
        stage=stage,
    )
    if watched is not None:
        state.metadata.validation_loss = loop.mean_loss(network, watched, CELLS)
