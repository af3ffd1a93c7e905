"""From scores to answers: probabilities, the words they leaned on, and the drop of the score without them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from ensue.answers import Attribution, Choice, Deletion, Passage, TextAnswer, TextExplanation
from ensue.data.histories import Index, Mask, offsets_of
from ensue.data.markup import strip_markup
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.lazy import lazy
from ensue.learning.state import require_trained
from ensue.metrics import Floats
from ensue.records import Text
from ensue.settings import require_k
from ensue.tasks.classify.dataset import Passages, Sides, select_words, word_counts
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.state import ClassifyState

if TYPE_CHECKING:  # needs torch
    from ensue.tasks.classify import neural
else:
    neural = lazy("ensue.tasks.classify.neural")

TESTED = 3
"""Number of most attended words that are deleted, one at a time and together; half of the words of a short text. Where
sentences are encoded, whole sentences are attributed and deleted."""
DRAWS = 5
"""Number of random deletions of as many words: single words or, for sentences, one run of words."""


def answers(state: ClassifyState, records: Sequence[Text], k: int, *, evidence: bool) -> list[TextAnswer]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.predict`."""
    require_k(k)
    require_trained(state.model)
    if not len(records):
        return []
    sides = state.encode(_columns(state, records))
    probabilities = state.probabilities(sides)
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
    known_counts = np.sum([tokens.num_known for tokens in sides], axis=0)
    sets = state.predicted_sets(probabilities) if state.metadata.sets else None
    attributed = _by_label(state, sides, probabilities, order, sets) if evidence else [_NO_EVIDENCE] * len(records)
    counts = zip(known_counts.tolist(), word_counts(sides).tolist(), strict=True)
    predicted = [
        None if sets is None else [label for label in row if sets[index, label]]
        for index, row in enumerate(np.argsort(-probabilities, axis=1, kind="stable").tolist())
    ]
    rows = zip(records, order.tolist(), probabilities.tolist(), counts, attributed, predicted, strict=True)
    labels = state.labels
    return [
        TextAnswer(
            tuple(
                Choice(labels[label], row[label], tested.attributions.get(rank, ())) for rank, label in enumerate(best)
            ),
            num_known,
            num_words,
            id=record.id,
            deletion=tested.deletion,
            labels=None if chosen is None else tuple(labels[label] for label in chosen),
        )
        for record, best, row, (num_known, num_words), tested, chosen in rows
    ]


def _columns(state: ClassifyState, records: Sequence[Text]) -> Texts:
    """Return records as columns, without HTML and without labels: some may have one and others none."""
    paired = state.metadata.paired
    for position, record in enumerate(records):
        if (len(record.texts) == 2) != paired:
            kind, expected = ("a single text", "pairs") if paired else ("a pair", "single texts")
            raise DataError(f"text {position}: is {kind}, but the model was trained on {expected}; give {expected}")
    columns = ([record.texts[side] for record in records] for side in range(1 + paired))
    return Texts(tuple(strip_markup(pl.Series(column, dtype=pl.String))[0] for column in columns))


class _Unit(NamedTuple):
    """A word or a sentence, its weight, and the score drop of each choice without it."""

    text: str
    position: int
    weight: float
    score_drops: list[float]

    def attribution(self, choice: int) -> Attribution:
        return Attribution(self.text, self.position, self.weight, self.score_drops[choice])


class _Tested(NamedTuple):
    units: list[_Unit]
    deletion: Deletion | None


class _Attributed(NamedTuple):
    """The attributions of a text by the rank of the choice, and its deletion test."""

    attributions: Mapping[int, tuple[Attribution, ...]]
    deletion: Deletion | None


_NOTHING_TESTED = _Tested([], None)
_NO_EVIDENCE = _Attributed({}, None)


class _Trial(NamedTuple):
    """A record without some of its words, which are counted through both texts of a pair."""

    record: int
    words: Index


def _by_label(
    state: ClassifyState, sides: Sides, probabilities: Floats, order: Index, sets: Mask | None
) -> Iterator[_Attributed]:
    """Yield the evidence of each record: of one label its units, tested for all choices; of sets each label's own."""
    if sets is None:
        for tested in _evidence(state, sides, probabilities, order):
            ranks = range(order.shape[1])
            yield _Attributed({rank: _attributions(tested, rank) for rank in ranks}, tested.deletion)
        return
    # The likeliest label, and every other one that is predicted.
    num_explained = np.clip(sets.sum(1), 1, order.shape[1])
    columns = [
        list(_evidence(state, sides, probabilities, order[:, [rank]])) for rank in range(int(num_explained.max()))
    ]
    for record, num in enumerate(num_explained.tolist()):
        by_rank = {rank: _attributions(columns[rank][record], 0) for rank in range(num)}
        yield _Attributed(by_rank, columns[0][record].deletion)


def _attributions(tested: _Tested, choice: int) -> tuple[Attribution, ...]:
    return tuple(unit.attribution(choice) for unit in tested.units)


def _evidence(state: ClassifyState, sides: Sides, probabilities: Floats, order: Index) -> Iterator[_Tested]:
    """Yield for each record the units of largest weight for its first choice, and the score drops without them."""
    weights = _weights(state, sides, order[:, 0])
    words = _words(sides)
    positions = [_positions(sides, record) for record in range(len(probabilities))]
    top = [_heaviest(weights[index], bounds) for index, bounds in zip(positions, _units(state, sides), strict=True)]
    trials = [trial for record, units in enumerate(top) for trial in _trials(record, units, sides)]
    trial_probabilities = _without(state, sides, trials)
    low = 0
    for record, units in enumerate(top):
        if not len(units):
            yield _NOTHING_TESTED
            continue
        # The trials of a record: each unit alone, all of them together, and the random deletions.
        num_trials = len(units) + 1 + DRAWS
        labels = order[record]
        drops = probabilities[record, labels] - trial_probabilities[low : low + num_trials][:, labels]
        low += num_trials
        single_drops, joint_drops, random_drops = np.split(drops, [len(units), len(units) + 1])
        index = positions[record]
        attributed = [
            _Unit(
                " ".join(words[word] for word in index[unit].tolist()),
                int(unit[0]),
                float(weights[index[unit]].sum()) / len(sides),
                unit_drops,
            )
            for unit, unit_drops in zip(units, single_drops.tolist(), strict=True)
        ]
        num_deleted = sum(map(len, units))
        deletion = Deletion(num_deleted, float(joint_drops[0, 0]), float(random_drops[:, 0].mean()), DRAWS)
        yield _Tested(attributed, deletion)


def _units(state: ClassifyState, sides: Sides) -> Iterator[Index]:
    """Yield the bounds of each record's units among its words: single words, or the sentences of an encoder."""
    if state.encoder is None:
        yield from (np.arange(size + 1) for size in word_counts(sides))
        return
    passages = state.passages(sides)
    for record in range(len(passages)):
        sizes = passages.sizes[passages.passages(np.array([record]))]
        yield offsets_of(sizes)


def _trials(record: int, units: list[Index], sides: Sides) -> Iterator[_Trial]:
    """Yield deletions of each unit, of all of them, and of as many random words, seeded by the text."""
    if not len(units):
        return
    yield from (_Trial(record, words) for words in units)
    together = np.concatenate(units)
    yield _Trial(record, together)
    ids = np.concatenate([tokens.ids[_span(tokens.sentences[tokens.texts], record)] for tokens in sides])
    random = np.random.default_rng(zlib.crc32(ids.tobytes()))
    for _ in range(DRAWS):
        if len(together) == len(units):
            yield _Trial(record, random.choice(len(ids), len(units), replace=False))
        else:  # sentences: one run of as many words
            yield _Trial(record, np.arange(len(together)) + random.integers(len(ids) - len(together) + 1))


def _without(state: ClassifyState, sides: Sides, trials: list[_Trial]) -> Floats:
    """Return the probabilities of each trial, (trials, labels)."""
    if not trials:
        return np.zeros((0, len(state.labels)))
    rows = np.array([trial.record for trial in trials])
    sizes = np.array([len(trial.words) for trial in trials])
    deleted = np.concatenate([trial.words for trial in trials])
    owner = np.repeat(np.arange(len(trials)), sizes)
    shorter = []
    num_before = np.zeros(len(trials), np.int64)  # words of the sides before this one
    for tokens in sides:
        texts = tokens.select(rows)
        stays: Mask = np.ones(len(texts.ids), np.bool_)
        position = deleted - num_before[owner]
        is_here = (position >= 0) & (position < texts.lengths[owner])
        # A word's number among all trials: the start of its text, plus its position in the text.
        stays[texts.sentences[texts.texts[:-1]][owner[is_here]] + position[is_here]] = False
        shorter.append(select_words(texts, stays))
        num_before = num_before + texts.lengths
    return state.probabilities(tuple(shorter))


def _heaviest(weights: Floats, bounds: Index) -> list[Index]:
    """Return the words of the units of largest weight, largest first; of equals up to rounding, the first."""
    if not len(weights):
        return []
    sums = np.add.reduceat(weights, bounds[:-1])
    order = np.argsort(-np.round(sums, 5), kind="stable")[: min(TESTED, max(1, len(sums) // 2))]
    return [np.arange(bounds[unit], bounds[unit + 1]) for unit in order[sums[order] > 0]]


def _weights(state: ClassifyState, sides: Sides, labels: Index) -> Floats:
    """Return the weight of each word, (words of all sides,); those of a text sum to 1, or to 0 if no word matters."""
    if state.schedule is None:
        return _baseline_weights(state, sides, labels, state.model_name)
    weights = _network_weights(state, sides, labels)
    blend_weights = state.metadata.blend or {}
    if not (total := sum(blend_weights.values())):
        return weights
    baseline_shares = {name: weight for name, weight in blend_weights.items() if name in state.counting and weight}
    weights *= 1 - sum(baseline_shares.values()) / total
    for name, weight in baseline_shares.items():
        weights += _baseline_weights(state, sides, labels, name) * (weight / total)
    return weights


def _network_weights(state: ClassifyState, sides: Sides, labels: Index) -> Floats:
    """Return the attributions of the network and, if it is added to the mean-vector baseline, of both in proportion.

    The parts are how far the network and the baseline move the score of the label from the mean of all labels.
    """
    weights = state.attention(sides)
    if not state.metadata.residual:
        return weights
    baseline_scores = state.counting["vectors"].scores(sides) / state.metadata.temperature["vectors"]
    network_scores = state.raw_scores(sides, NETWORK) - baseline_scores
    rows = np.arange(len(labels))
    moved_by_baseline, moved_by_network = (
        np.abs(scores - scores.mean(1, keepdims=True))[rows, labels] for scores in (baseline_scores, network_scores)
    )
    fraction = moved_by_baseline / np.maximum(moved_by_baseline + moved_by_network, np.finfo(float).tiny)
    # The part of each word's text, word by word.
    word_fraction = fraction[np.concatenate([np.repeat(rows, tokens.lengths) for tokens in sides])]
    baseline_weights = _baseline_weights(state, sides, labels, "vectors")
    return weights * (1 - word_fraction) + baseline_weights * word_fraction


def _baseline_weights(state: ClassifyState, sides: Sides, labels: Index, name: str) -> Floats:
    """Return the normalised attributions of a baseline."""
    moved = np.abs(state.counting[name].attributions(sides, labels))
    lengths = np.concatenate([tokens.lengths for tokens in sides])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    sums = np.bincount(owner, moved, len(lengths))
    return moved / np.where(sums > 0, sums, 1.0)[owner]


def _words(sides: Sides) -> list[str]:
    """Return the words of all sides as the model reads them."""
    return [word for tokens in sides if tokens.words is not None for word in tokens.words.to_list()]


def _positions(sides: Sides, record: int) -> Index:
    """Return the positions of a record's words among those of all sides."""
    positions = []
    num_before = 0  # words of the sides before this one
    for tokens in sides:
        span = _span(tokens.sentences[tokens.texts], record)
        positions.append(np.arange(span.start, span.stop) + num_before)
        num_before += len(tokens.ids)
    return np.concatenate(positions)


def _span(offsets: Index, record: int) -> slice:
    return slice(int(offsets[record]), int(offsets[record + 1]))


def explanations(state: ClassifyState, records: Sequence[Text], k: int) -> list[TextExplanation]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.explain`."""
    pairs = zip(records, answers(state, records, k, evidence=True), strict=True)
    return [_explanation(state, record, answer) for record, answer in pairs]


def _explanation(state: ClassifyState, record: Text, answer: TextAnswer) -> TextExplanation:
    """Return the weights and graphs inside one record, passage by passage."""
    sides = state.encode(_columns(state, [record]))
    best = np.array([state.labels.index(answer.choices[0].value)])
    weights = _weights(state, sides, best)
    words = _words(sides)
    passages = Passages(sides, documents=state.documents)
    graphs: dict[int, neural.Graph] = {}
    passage_graph: neural.Graph = ()
    # The graph of an exported network returns no word graphs.
    if state.schedule is not None and state.metadata.exported is None:
        passages = batches = state.passages(sides)
        graphs, passage_graph = neural.graphs(state.network, batches, state.device)
    explained = []
    for number, passage in enumerate(passages.passages(np.arange(1)).tolist()):
        span = slice(int(passages.starts[passage]), int(passages.starts[passage] + passages.sizes[passage]))
        passage_weight = float(weights[span].sum())
        word_weights = weights[span] / passage_weight if passage_weight > 0 else weights[span]
        side = int(span.start >= len(sides[0].ids))
        graph = graphs.get(number, ())
        explained.append(Passage(tuple(words[span]), tuple(word_weights.tolist()), graph, passage_weight, side))
    return TextExplanation(tuple(explained), passage_graph, answer)
