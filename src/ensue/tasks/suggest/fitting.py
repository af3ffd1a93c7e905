"""How a suggester is trained: the floor first, then tokens and counts, then the network, then the mixing weights."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from ensue.data.histories import Histories, scrambled
from ensue.data.queries import Queries, hold_out_queries
from ensue.data.query_rules import normalise
from ensue.data.query_tokens import SPECIAL, Kind, QueryTokenizer
from ensue.errors import DataError
from ensue.lines import plural
from ensue.tasks.suggest import storage
from ensue.tasks.suggest.mixing import learn_order
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.retrieval import Retrieval
from ensue.tasks.suggest.task import CELLS, Sessions, Spelled, spell_out
from ensue.training.loop import Report, mean_loss, train
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from ensue.tasks.suggest.predictor import SuggestPredictor

NO_TEXTS = pl.Series("query", [], dtype=pl.String)
DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that sessions can be put in order of their start."""


def fit(
    predictor: SuggestPredictor, data: Queries, valid: Queries | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.fit`."""
    require_pairs(data, "training data")
    part, held, rule = _parts(data, valid, whole=predictor.schedule is None)
    require_pairs(part, "training data")
    _learn_words(predictor, part)
    if rule:
        predictor.facts["held_out"] = rule
    if predictor.schedule is None:
        predictor.model = predictor.retrieval
        return
    assert held is not None
    require_pairs(held, "validation data")
    yield from _train(predictor, part, held, checkpoint, resume)
    learn_order(predictor, held)


def require_pairs(data: Queries, where: str) -> None:
    """Refuse sessions in which nothing follows anything.

    Raises:
        DataError: none has two queries.
    """
    if not len(data) or int(data.histories.lengths.max()) < 2:
        raise DataError(f"{where}: no session has two queries, so nothing follows anything; give whole sessions")


def _parts(data: Queries, valid: Queries | None, *, whole: bool) -> tuple[Queries, Queries | None, str]:
    """What is learned, what is watched, and by which rule it was split off."""
    given = set(data.parts.unique()) if len(data.parts) else set()
    own = "train" in given and len(given) > 1
    part = data.part("train") if own else data
    if valid is not None or whole:
        return part, valid, "as given: only the sessions of train were learned" if own else ""
    if own and "valid" in given:
        held = data.part("valid", novel=bool(data.novel[(data.parts == "valid").to_numpy()].any()))
        kind = " that the file marks as novel" if len(held) < len(data.part("valid")) else ""
        return part, held, f"as given: {plural(len(part), 'session')} of train, {len(held):,} of valid{kind}"
    times = part.histories.times
    return hold_out_queries(part, absolute=part.histories.timed and float(times.min()) > DATED)


def _learn_words(predictor: SuggestPredictor, data: Queries) -> None:
    """Take the floor, the tokens, the counts and the facts from the training data."""
    own, histories = predictor.shared, data.histories
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    predictor.floor = floor = Floor.of(data, own.min_users)
    common = floor.common(values)
    if not (common != "").any():
        raise DataError(
            f"training data: no query and no word was typed by {own.min_users} {floor.counted}, so nothing could ever "
            "be shown; give a larger log, or lower min_users"
        )
    counts = np.bincount(histories.ids.astype(np.int64) - FIRST, minlength=len(values))
    predictor.tokenizer = QueryTokenizer.fit(
        common, counts, kind=_kind(own.tokens), min_count=own.min_count, size=own.vocabulary_size
    )
    predictor.retrieval = Retrieval.fit(histories, floor.kept(values))
    predictor.rules = None
    predictor.train_prints = torch.from_numpy(np.unique(prints(histories)))
    used = values.gather(np.unique(histories.ids).astype(np.int64) - FIRST)
    predictor.facts = {
        "sessions": len(data),
        "queries": len(histories.ids),
        "distinct": len(used),
        "tokens": len(predictor.tokenizer) - len(SPECIAL),
        "normalisation": "paper" if (normalise(used, "paper") == used).all() else "plain",
        "notes": [],
    }


def _kind(tokens: str) -> Kind:
    return "bpe" if tokens == "bpe" else "words"


def prints(sessions: Histories) -> npt.NDArray[np.int32]:
    """(pairs,) fingerprints of each query with the one before it, in order.

    They have 32 bits, so that every guess hits one of some million pairs by chance often enough to prove nothing.
    """
    values = sessions.vocabulary.values
    used, codes = np.unique(sessions.ids, return_inverse=True)
    digests = b"".join(hashlib.blake2b(values[id - FIRST].encode(), digest_size=8).digest() for id in used.tolist())
    numbers = np.frombuffer(digests, np.uint64)[codes]
    owners = sessions.sequence_index()
    beside = owners[1:] == owners[:-1]
    mixed = scrambled(scrambled(numbers[:-1][beside]) + numbers[1:][beside])
    return (mixed >> np.uint64(32)).astype(np.uint32).view(np.int32)


def learned_spelling(predictor: SuggestPredictor, values: pl.Series) -> Spelled:
    """What the network is taught of some queries: words below the floor are unknown to it, pieces of words too."""
    if predictor.tokenizer.kind == "words":
        return spell_out(predictor.tokenizer, values)
    return spell_out(predictor.tokenizer, predictor.floor.common(values))


def source(predictor: SuggestPredictor, sessions: Histories) -> Sessions:
    """Sessions as the network learns them."""
    used, codes = np.unique(sessions.ids, return_inverse=True)
    values = sessions.vocabulary.values
    texts = pl.Series("query", [values[id - FIRST] for id in used.tolist()], dtype=pl.String)
    recoded = Histories(codes.astype(np.int32) + np.int32(FIRST), sessions.offsets, sessions.vocabulary)
    own = predictor.shared
    return Sessions(recoded, learned_spelling(predictor, texts), own.turns, own.query_tokens)


def note_cuts(predictor: SuggestPredictor, data: Sessions) -> None:
    """Say what the caps did."""
    own, notes = predictor.shared, predictor.facts["notes"]
    if data.cut_sessions:
        notes.append(f"learned in windows: {plural(data.cut_sessions, 'session')} of more than {own.turns} queries")
    if data.cut_queries:
        notes.append(f"cut to {own.query_tokens} tokens: {plural(data.cut_queries, 'query', 'queries')}")


def _train(
    predictor: SuggestPredictor, part: Queries, held: Queries, checkpoint: Path | None, resume: bool
) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights."""
    schedule = predictor.schedule
    assert schedule is not None
    torch.manual_seed(predictor.seed)
    network = predictor.new_network()
    predictor.model, predictor.optimizer = network, make_optimizer(network, schedule)
    data, watched = source(predictor, part.histories), source(predictor, held.histories)
    note_cuts(predictor, data)
    trained = yield from train(
        network,
        data,
        lambda: mean_loss(network, watched, CELLS),
        schedule,
        optimizer=predictor.optimizer,
        seed=predictor.seed,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=storage.fingerprint(predictor, [data, watched]),
    )
    predictor.facts |= {"epochs": trained.best_epoch, "validation_loss": mean_loss(network, watched, CELLS)}
    predictor.seconds_an_epoch = trained.seconds_an_epoch
