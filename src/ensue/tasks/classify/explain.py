"""From scores to answers: probabilities, the words they leaned on, and the drop of the score without them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from ensue.answers import Attribution, Choice, Deletion, Passage, TextAnswer, TextExplanation
from ensue.data.histories import Index, ranges
from ensue.data.markup import strip_markup
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.learning.state import require_trained
from ensue.metrics import Floats
from ensue.records import Text
from ensue.settings import require_k
from ensue.tasks.classify import infer
from ensue.tasks.classify.dataset import Keep, Passages, Sides, keep_words
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.state import ClassifyState
from ensue.vocabulary import UNKNOWN

TESTED = 3
"""Number of most attended words that are deleted, one at a time and together; half of the words of a short text. Where
sentences are encoded, whole sentences are attributed and deleted."""
DRAWS = 5
"""Number of random deletions of as many words: single words or, for sentences, one run of words."""
Graph = tuple[tuple[float, ...], ...]


def answers(state: ClassifyState, records: Sequence[Text], k: int, *, evidence: bool) -> list[TextAnswer]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.predict`."""
    require_k(k)
    require_trained(state.model)
    if not len(records):
        return []
    texts = _columns(state, records)
    sides = state.encode(texts)
    shares = infer.probabilities(state, sides)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :k]
    word_counts = np.sum([tokens.lengths for tokens in sides], axis=0)
    sums = [_sums(tokens.ids != UNKNOWN)[tokens.sentences[tokens.texts]] for tokens in sides]
    known_counts = np.sum([np.diff(part) for part in sums], axis=0)
    tested_rows = _evidence(state, sides, shares, order) if evidence else [_NOTHING] * len(records)
    counts = zip(known_counts.tolist(), word_counts.tolist(), strict=True)
    rows = zip(records, order.tolist(), shares.tolist(), counts, tested_rows, strict=True)
    labels = state.labels
    return [
        TextAnswer(
            tuple(
                Choice(labels[label], row[label], tuple(test.attribution(place) for test in tested.words))
                for place, label in enumerate(best)
            ),
            num_known,
            num_words,
            id=record.id,
            deletion=tested.deletion,
        )
        for record, best, row, (num_known, num_words), tested in rows
    ]


def _columns(state: ClassifyState, records: Sequence[Text]) -> Texts:
    """Return records as columns, without HTML and without labels: some may have one and others none."""
    paired = state.metadata.paired
    for position, record in enumerate(records):
        if (len(record.texts) == 2) != paired:
            kinds = ("a single text", "pairs") if paired else ("a pair", "single texts")
            raise DataError(f"text {position}: is {kinds[0]}, but the model was trained on {kinds[1]}; give {kinds[1]}")
    columns = ([record.texts[place] for record in records] for place in range(1 + paired))
    return Texts(tuple(strip_markup(pl.Series(column, dtype=pl.String))[0] for column in columns))


class _Word(NamedTuple):
    value: str
    position: int
    share: float
    score_drops: list[float]  # by choice

    def attribution(self, choice: int) -> Attribution:
        return Attribution(self.value, self.position, self.share, self.score_drops[choice])


class _Tested(NamedTuple):
    words: list[_Word]
    deletion: Deletion | None


_NOTHING = _Tested([], None)


class _Trial(NamedTuple):
    """A record without some of its words, which are counted through both texts of a pair."""

    record: int
    words: Index


def _evidence(state: ClassifyState, sides: Sides, shares: Floats, order: Index) -> Iterator[_Tested]:
    """For each record the words it leaned on most, and what its answer is without them."""
    weights, words = _weights(state, sides, shares.argmax(1)), _words(sides)
    places = [_places(sides, record) for record in range(len(shares))]
    top = [_heaviest(weights[place], bounds) for place, bounds in zip(places, _units(state, sides), strict=True)]
    trials = [trial for record, best in enumerate(top) for trial in _trials(record, best, sides)]
    without = _without(state, sides, trials)
    low = 0
    for record, best in enumerate(top):
        if not len(best):
            yield _NOTHING
            continue
        labels = order[record]
        drops = shares[record, labels] - without[low : low + len(best) + 1 + DRAWS][:, labels]
        low += len(drops)
        alone, together, random = drops[: len(best)], drops[len(best)], drops[len(best) + 1 :]
        where = places[record]
        attributions = [
            _Word(
                " ".join(words[word] for word in where[unit].tolist()),
                int(unit[0]),
                float(weights[where[unit]].sum()) / len(sides),
                row,
            )
            for unit, row in zip(best, alone.tolist(), strict=True)
        ]
        gone = sum(map(len, best))
        yield _Tested(attributions, Deletion(gone, float(together[0]), float(random[:, 0].mean()), DRAWS))


def _units(state: ClassifyState, sides: Sides) -> Iterator[Index]:
    """For each record, yield the bounds of its units among its words: words, or the sentences of an encoder."""
    if state.encoder is None:
        yield from (np.arange(size + 1) for size in np.sum([tokens.lengths for tokens in sides], axis=0))
        return
    passages = state.passages(sides)
    for record in range(len(passages)):
        sizes = passages.sizes[passages.passages(np.array([record]))]
        yield np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _trials(record: int, best: list[Index], sides: Sides) -> Iterator[_Trial]:
    """Each of the best words alone, all of them, and as many drawn at random: by the text, so that it can be redone."""
    if not len(best):
        return
    yield from (_Trial(record, words) for words in best)
    together = np.concatenate(best)
    yield _Trial(record, together)
    ids = np.concatenate([tokens.ids[_span(tokens.sentences[tokens.texts], record)] for tokens in sides])
    random = np.random.default_rng(zlib.crc32(ids.tobytes()))
    for _ in range(DRAWS):
        if len(together) == len(best):
            yield _Trial(record, random.choice(len(ids), len(best), replace=False))
        else:
            yield _Trial(record, np.arange(len(together)) + random.integers(len(ids) - len(together) + 1))


def _without(state: ClassifyState, sides: Sides, trials: list[_Trial]) -> Floats:
    """(trials, labels) probabilities."""
    if not trials:
        return np.zeros((0, len(state.labels)))
    rows = np.array([trial.record for trial in trials])
    sizes = np.array([len(trial.words) for trial in trials])
    gone, owner = np.concatenate([trial.words for trial in trials]), np.repeat(np.arange(len(trials)), sizes)
    shorter, before = [], np.zeros(len(trials), np.int64)
    for tokens in sides:
        chosen = tokens.select(rows)
        kept: Keep = np.ones(len(chosen.ids), np.bool_)
        place, inside = gone - before[owner], chosen.lengths[owner]
        here = (place >= 0) & (place < inside)
        kept[chosen.sentences[chosen.texts[:-1]][owner[here]] + place[here]] = False
        shorter.append(keep_words(chosen, kept))
        before = before + chosen.lengths
    return infer.probabilities(state, tuple(shorter))


def _heaviest(weights: Floats, bounds: Index) -> list[Index]:
    """The words of the units of largest weight, largest first; of those that differ by rounding alone, the first."""
    if not len(weights):
        return []
    sums = np.add.reduceat(weights, bounds[:-1])
    order = np.argsort(-np.round(sums, 5), kind="stable")[: min(TESTED, max(1, len(sums) // 2))]
    return [np.arange(bounds[unit], bounds[unit + 1]) for unit in order[sums[order] > 0]]


def _weights(state: ClassifyState, sides: Sides, labels: Index) -> Floats:
    """(words of all sides,) shares of the words: those of each text sum to 1, or to 0 where no word matters."""
    if state.schedule is None:
        return _baseline_shares(state, sides, labels, state.model_name)
    weights, parts = _network_shares(state, sides, labels), state.metadata.blend or {}
    if not (whole := sum(parts.values())):
        return weights
    counted = {name: weight for name, weight in parts.items() if name in state.counting and weight}
    weights *= 1 - sum(counted.values()) / whole
    for name, weight in counted.items():
        weights += _baseline_shares(state, sides, labels, name) * (weight / whole)
    return weights


def _network_shares(state: ClassifyState, sides: Sides, labels: Index) -> Floats:
    """Return the attributions of the network and, if it is added to the mean-vector baseline, of both in proportion.

    The parts are how far the network and the row move the score of the label from the mean of all labels.
    """
    weights = _attention(state, sides)
    if not state.metadata.residual:
        return weights
    row = (state.counting["vectors"].scores(sides) / state.metadata.temperature["vectors"]).double()
    own = infer.raw_scores(state, sides, NETWORK).double() - row
    moved = [
        (scores - scores.mean(1, keepdim=True)).abs().numpy()[np.arange(len(labels)), labels] for scores in (row, own)
    ]
    part = moved[0] / np.maximum(moved[0] + moved[1], np.finfo(float).tiny)
    owner = np.concatenate([np.repeat(np.arange(len(labels)), tokens.lengths) for tokens in sides])
    mixed: Floats = weights * (1 - part[owner]) + _baseline_shares(state, sides, labels, "vectors") * part[owner]
    return mixed


def _baseline_shares(state: ClassifyState, sides: Sides, labels: Index, name: str) -> Floats:
    """Return the normalised attributions of a baseline."""
    moved = np.abs(state.counting[name].attributions(sides, labels))
    lengths = np.concatenate([tokens.lengths for tokens in sides])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    sums = np.bincount(owner, moved, len(lengths))
    shares: Floats = moved / np.where(sums > 0, sums, 1.0)[owner]
    return shares


def _attention(state: ClassifyState, sides: Sides) -> Floats:
    """Return the attention weights of the poolings."""
    passages = state.passages(sides)
    weights = np.zeros(len(passages.ids))
    for index in passages.groups():
        _add_weights(state, passages, index, weights)
    return weights


def _add_weights(state: ClassifyState, passages: Passages, index: Index, weights: Floats) -> None:
    """Write down, where they stand, the shares of the words of some records."""
    batch = passages.batch(index)
    output, chosen = infer.run(state, batch), passages.passages(index)
    shares = batch.shares.double().numpy()
    if passages.documents:
        upper, shares = shares, np.zeros(len(chosen))
        for block, pooled in zip(batch.sentences, output.sentences, strict=True):
            rows = pooled.weights.double().cpu().numpy() * upper[block.rows.numpy()][:, None]
            shares[block.items[block.mask].numpy()] = rows[block.mask.numpy()]
    if batch.vectors is not None:  # nothing is weighed inside an encoded sentence: its words share alike
        sizes = passages.sizes[chosen]
        weights[ranges(passages.starts[chosen], sizes)] = np.repeat(shares / sizes, sizes)
    for block, pooled in zip(batch.words, output.words, strict=True):
        mask, rows = block.mask.numpy(), block.rows.numpy()
        where = passages.starts[chosen[rows]][:, None] + np.arange(mask.shape[1])
        weights[where[mask]] = (pooled.weights.double().cpu().numpy() * shares[rows][:, None])[mask]


def _words(sides: Sides) -> list[str]:
    """Return the words of all sides as the model reads them."""
    return [word for tokens in sides if tokens.words is not None for word in tokens.words.to_list()]


def _places(sides: Sides, record: int) -> Index:
    """Return the positions of a record's words among those of all sides."""
    places, base = [], 0
    for tokens in sides:
        span = _span(tokens.sentences[tokens.texts], record)
        places.append(np.arange(span.start, span.stop) + base)
        base += len(tokens.ids)
    return np.concatenate(places)


def _span(offsets: Index, record: int) -> slice:
    return slice(int(offsets[record]), int(offsets[record + 1]))


def _sums(flags: Keep) -> Index:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(flags, dtype=np.int64)])


def explanations(state: ClassifyState, records: Sequence[Text], k: int) -> list[TextExplanation]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.explain`."""
    pairs = zip(records, answers(state, records, k, evidence=True), strict=True)
    return [_explanation(state, record, answer) for record, answer in pairs]


def _explanation(state: ClassifyState, record: Text, answer: TextAnswer) -> TextExplanation:
    """The weights and graphs inside one record, passage by passage."""
    texts = _columns(state, [record])
    sides = state.encode(texts)
    best = np.array([state.labels.index(answer.choices[0].value)])
    weights, words = _weights(state, sides, best), _words(sides)
    passages = state.passages(sides)
    chosen = passages.passages(np.arange(1))
    graphs, upper = _graphs(state, passages) if state.schedule is not None else ({}, ())
    parts = []
    for number, passage in enumerate(chosen.tolist()):
        span = slice(int(passages.starts[passage]), int(passages.starts[passage] + passages.sizes[passage]))
        share = float(weights[span].sum())
        within = weights[span] / share if share > 0 else weights[span]
        side = int(span.start >= len(sides[0].ids))
        parts.append(Passage(tuple(words[span]), tuple(within.tolist()), graphs.get(number, ()), share, side))
    return TextExplanation(tuple(parts), upper, answer)


def _graphs(state: ClassifyState, passages: Passages) -> tuple[dict[int, Graph], Graph]:
    """The word graph of each passage of the one record, and the graph between its passages."""
    batch = passages.batch(np.arange(1))
    output = infer.run(state, batch)
    graphs: dict[int, Graph] = {}
    for block, pooled in zip(batch.words, output.words, strict=True):
        for row, size, graph in zip(block.rows.tolist(), block.lengths.tolist(), _rows(pooled.graph), strict=False):
            graphs[row] = tuple(map(tuple, graph[:size, :size].tolist()))
    whole = len(batch.sentences) == 1 and len(batch.sentences[0].rows) == 1 and output.sentences[0].graph is not None
    return graphs, tuple(map(tuple, _rows(output.sentences[0].graph)[0].tolist())) if whole else ()


def _rows(graph: torch.Tensor | None) -> list[torch.Tensor]:
    return [] if graph is None else list(graph.cpu())
