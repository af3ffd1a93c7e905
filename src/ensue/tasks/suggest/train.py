"""How a suggester is trained: the floor first, then tokens and counts, then the network, then the mixing weights."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import torch

from ensue.data.queries import Queries, hold_out_queries
from ensue.data.queries.rules import normalise
from ensue.data.queries.tokens import SPECIAL, Kind, QueryTokenizer
from ensue.errors import DataError
from ensue.lines import plural
from ensue.tasks.suggest import save
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.dataset import CELLS, Sessions, prints
from ensue.tasks.suggest.ensembles.reranker import learn_order
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.state import SuggestState
from ensue.training.loop import mean_loss, train
from ensue.training.optimizer import make_optimizer
from ensue.training.report import Report
from ensue.vocabulary import FIRST

DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that sessions can be put in order of their start."""


def fit(
    state: SuggestState, data: Queries, valid: Queries | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.fit`."""
    require_pairs(data, "training data")
    part, held, rule = _parts(data, valid, whole=state.schedule is None)
    require_pairs(part, "training data")
    learn_words(state, part)
    if rule:
        state.metadata.held_out = rule
    if state.schedule is None:
        state.model = state.retrieval
        return
    assert held is not None
    require_pairs(held, "validation data")
    yield from _train(state, part, held, checkpoint, resume)
    learn_order(state, held)


def require_pairs(data: Queries, where: str) -> None:
    """Refuse sessions in which nothing follows anything.

    Raises:
        DataError: none has two queries.
    """
    if not len(data) or int(data.histories.lengths.max()) < 2:
        raise DataError(f"{where}: no session has two queries, so nothing follows anything; give whole sessions")


def _parts(data: Queries, valid: Queries | None, *, whole: bool) -> tuple[Queries, Queries | None, str]:
    """What is learned, what is watched, and by which rule it was split off."""
    names = set(data.parts.unique()) if len(data.parts) else set()
    own = "train" in names and len(names) > 1
    part = data.part("train") if own else data
    if valid is not None or whole:
        return part, valid, "as given: only the sessions of train were learned" if own else ""
    if own and "valid" in names:
        held = data.part("valid", novel=bool(data.novel[(data.parts == "valid").to_numpy()].any()))
        kind = " that the file marks as novel" if len(held) < len(data.part("valid")) else ""
        return part, held, f"as given: {plural(len(part), 'session')} of train, {len(held):,} of valid{kind}"
    times = part.histories.times
    return hold_out_queries(part, absolute=part.histories.timed and float(times.min()) > DATED)


def learn_words(state: SuggestState, data: Queries) -> None:
    """Take the floor, the tokens, the counts and the metadata from the training data."""
    own, histories = state.shared, data.histories
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    state.floor = floor = Floor.of(data, own.min_users)
    common = floor.common(values)
    if not (common != "").any():
        raise DataError(
            f"training data: no query and no word was typed by {own.min_users} {floor.counted}, so nothing could ever "
            "be shown; give a larger log, or lower min_users"
        )
    counts = np.bincount(histories.ids.astype(np.int64) - FIRST, minlength=len(values))
    state.tokenizer = QueryTokenizer.fit(
        common, counts, kind=_kind(own.tokens), min_count=own.min_count, size=own.vocabulary_size
    )
    state.retrieval = Retrieval.fit(histories, floor.kept(values), floor.words)
    state.rules = None
    state.train_prints = torch.from_numpy(np.unique(prints(histories)))
    used = values.gather(np.unique(histories.ids).astype(np.int64) - FIRST)
    state.metadata = metadata = Metadata()
    metadata.sessions, metadata.queries, metadata.distinct = len(data), len(histories.ids), len(used)
    metadata.tokens = len(state.tokenizer) - len(SPECIAL)
    metadata.normalisation = "paper" if (normalise(used, "paper") == used).all() else "plain"
    metadata.notes = []


def _kind(tokens: str) -> Kind:
    return "bpe" if tokens == "bpe" else "words"


def note_cuts(state: SuggestState, data: Sessions) -> None:
    """Say what the caps did."""
    own, notes = state.shared, state.metadata.notes
    if data.cut_sessions:
        notes.append(f"learned in windows: {plural(data.cut_sessions, 'session')} of more than {own.turns} queries")
    if data.cut_queries:
        notes.append(f"cut to {own.query_tokens} tokens: {plural(data.cut_queries, 'query', 'queries')}")


def _train(
    state: SuggestState, part: Queries, held: Queries, checkpoint: Path | None, resume: bool
) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights."""
    schedule = state.schedule
    assert schedule is not None
    torch.manual_seed(state.seed)
    state.model = state.new_network()
    network = state.module
    state.optimizer = make_optimizer(network, schedule)
    data, watched = state.windows(part.histories), state.windows(held.histories)
    note_cuts(state, data)
    trained = yield from train(
        network,
        data,
        lambda: mean_loss(network, watched, CELLS),
        schedule,
        optimizer=state.optimizer,
        seed=state.seed,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=save.fingerprint(state, [data, watched]),
    )
    state.metadata.epochs, state.metadata.validation_loss = trained.best_epoch, mean_loss(network, watched, CELLS)
    state.seconds_an_epoch = trained.seconds_an_epoch
