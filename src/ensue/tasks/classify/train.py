"""Training of a text classifier: vocabulary and baselines first, then the network, then temperatures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.texts import Texts, hold_out_texts
from ensue.data.texts.labels import require_known
from ensue.errors import DataError, SettingError
from ensue.lazy import INSTALL, has_torch, lazy
from ensue.learning.life import Example, Split, of_texts
from ensue.lines import plural
from ensue.settings import require_encoder, require_file
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.calibration import calibration_error, temperature
from ensue.tasks.classify.catalogue import COUNTING, MODELS
from ensue.tasks.classify.choice import adds_nothing, choose_blend, decide
from ensue.tasks.classify.cross_fitting import FoldedTexts, Unseen, fit_baseline
from ensue.tasks.classify.dataset import Sides, codes, known, sampled, text_hashes, usable_texts
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.settings import (
    ALIGNMENT,
    MAX_EPOCHS,
    MAX_EPOCHS_OF_BEST,
    SCHEDULE,
    WIDTHS_WITHOUT_VECTORS,
    LinearSettings,
    TextSettings,
    schedule_for,
)
from ensue.tasks.classify.state import ClassifierMetadata, ClassifyState
from ensue.text.tokens import split_words
from ensue.text.vectors import fit_tokenizer, initial_vectors
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report, Reports

if TYPE_CHECKING:  # needs torch
    from ensue.tasks.classify import fit_network
else:
    fit_network = lazy("ensue.tasks.classify.fit_network")

DOCUMENT_WORDS, DOCUMENT_SENTENCES = 64, 3
"""Texts of more words and sentences than this on average are documents."""
WITHOUT_TORCH = f"PyTorch is not installed, so tfidf is trained instead of a blend with a network; {INSTALL}"
"""Note of a training of ``best`` without torch."""


def split(state: ClassifyState, data: Texts, valid: Texts | None) -> Split[Texts]:
    """Require labelled texts and hold out a tenth of them, unless validation data is given."""
    require_file("vectors", state.settings.vectors)
    if state.encoder is not None:
        require_encoder(state.encoder.name)
    require_labels(data, "training data")
    data, spelling_notes = data.join_spellings()
    if len(state.names) > 1 and not has_torch():
        state.names = ("tfidf",)
        state.select_model("tfidf")
        spelling_notes = (*spelling_notes, WITHOUT_TORCH)
    # Given validation data, nothing is held out.
    train = data
    rule = ""
    if valid is None:
        train, valid, rule = hold_out_texts(data, seed=state.seed)
        require_labels(train, "training data")
    _require_like(train, valid)
    labelled = data if state.schedule is None else train  # baselines are trained on held-out texts too
    labels = labelled.distinct_labels()
    valid, valid_notes = valid.match_spellings(labels)
    assert valid.labels is not None
    require_known(valid.flat_labels, labels, "validation data")
    notes = (*spelling_notes, *(f"validation data: {note}" for note in valid_notes))
    return Split(train, valid, data if rule else None, rule, notes)


def train(state: ClassifyState, split: Split[Texts], checkpoint: Checkpoint) -> Reports[Split[Texts]]:
    """Fit vocabulary and baselines, then the network, then what held-out texts decide."""
    assert split.valid is not None
    if WITHOUT_TORCH in split.notes:
        yield Report("fit", 0, 0, 0, 0, 0.0, 0.0, note=f"warning: {WITHOUT_TORCH}")
    _fit_vocabulary(state, split.train if state.schedule is not None or split.full is None else split.full)
    state.metadata.notes += split.notes
    data = FoldedTexts.of(state, split.train)
    valid = FoldedTexts.of(state, split.valid)
    _note_cuts(state, data.sides)
    baseline_scores = _fit_baselines(state, data, valid)
    if state.schedule is None:
        return split
    is_behind = partial(adds_nothing, state, valid, baseline_scores) if state.model_name == "blend" else None
    _fit_settings(state, len(data.targets))
    yield from fit_network.fit(state, data, valid, checkpoint, is_behind)
    costs: dict[str, float] = {}
    if state.model_name == "blend":
        _calibrate(state, blend.NETWORK, valid)
        costs = choose_blend(state, valid, baseline_scores)
    if costs:  # the weights of a blend minimise the log loss, so its temperature is 1
        state.metadata.temperature[state.model_name] = 1.0
        _note_accuracy(state, state.model_name, valid)
    else:
        _calibrate(state, state.model_name, valid)
    decide(state, costs)
    return split


def refit(state: ClassifyState, full: Texts, checkpoint: Checkpoint) -> Iterator[Report]:
    """Fit the baselines on all texts, with the strengths that were selected; the network stays."""
    sides = state.encode(full)
    targets = codes(full, state.labels)
    for name, former in state.counting.items():
        matrix = former.matrix if isinstance(former, MeanVectors) else None
        baseline = state.new_baseline(name, state.metadata.strength[name], matrix)
        baseline.count(sides, targets)
        state.counting[name] = baseline
    state.train_prints = np.unique(text_hashes(full))
    state.metadata.texts = len(full)
    return iter(())


def finish(state: ClassifyState, split: Split[Texts]) -> None:
    """Store held-out texts for the tests of updates."""
    if state.schedule is None:
        state.model = state.counting[state.model_name]
        state.optimizer = None
    state.remembered = None
    if state.encoder is None and split.valid is not None:  # an encoder reads texts, which are not stored
        targets = codes(split.valid, state.labels)
        state.remembered = sampled(state.encode(split.valid), targets, state.shared.remembered, state.seed)


def example(state: ClassifyState, valid: Texts, index: int) -> Example | None:
    """Return a held-out text with its label for the page."""
    if not state.shared.remembered:
        return None
    text = valid.record(index)
    return of_texts(
        {"texts": [*text.texts]},
        text.texts,
        [";".join(text.label) if isinstance(text.label, tuple) else text.label or ""],
    )


def require_labels(texts: Texts, where: str) -> None:
    """Refuse texts from which no difference between labels can be learned.

    Raises:
        DataError: no texts, no labels, or only one.
    """
    _labels_of(texts, where)
    labels = texts.distinct_labels()
    if len(labels) < 2:
        label = f"every text has the label {labels[0]!r}" if labels else "no text has a label"
        raise DataError(f"{where}: {label}; give texts of at least two labels")


def _labels_of(texts: Texts, where: str) -> pl.Series:
    if not len(texts):
        raise DataError(f"{where}: there are no texts")
    if texts.labels is None:
        raise DataError(f"{where}: the texts have no labels; name the column, such as label=COLUMN")
    return texts.labels


def _require_like(train: Texts, valid: Texts) -> None:
    _labels_of(valid, "validation data")
    if valid.paired != train.paired:
        valid_kind, train_kind = ("pairs", "single texts") if valid.paired else ("single texts", "pairs")
        raise DataError(f"validation data: these are {valid_kind}, but the training data holds {train_kind}")
    if valid.multilabel != train.multilabel:
        number = "one label" if train.multilabel else "several labels"
        raise DataError(f"validation data: its texts have {number}, unlike the training data; give labels of one kind")


def _fit_vocabulary(state: ClassifyState, data: Texts) -> None:
    """Take labels, words and metadata from the training data."""
    distinct = data.distinct_labels()
    numbers = all(label.removeprefix("-").isdecimal() for label in distinct)
    # 10 comes after 9 where all labels are numbers.
    labels = sorted(distinct, key=(lambda label: (int(label), label)) if numbers else None)
    architecture = _architecture(state, data)
    state.select_model(state.model_name, architecture)
    settings = state.settings
    state.tokenizer = fit_tokenizer(
        data.texts,
        lower=settings.lower,
        min_count=settings.min_count,
        vectors=settings.vectors,
        extra_words=settings.extra_words,
    )
    state.train_prints = np.unique(text_hashes(data))
    state.metadata = ClassifierMetadata(
        texts=len(data), labels=labels, paired=data.paired, architecture=architecture, temperature={}, strength={},
        calibration_error={}, validation_accuracy={}, notes=[],
        encoder=None if state.encoder is None else state.encoder.probe(), sets=data.multilabel,
    )  # fmt: skip


def _architecture(state: ClassifyState, data: Texts) -> str:
    architecture = str(getattr(state.settings, "architecture", "auto"))
    if (architecture == "pair") != data.paired and architecture != "auto":
        kind = "pairs" if data.paired else "single texts"
        raise SettingError(f"architecture is {architecture!r}, but the training data holds {kind}; use auto")
    if architecture != "auto" or data.paired or state.schedule is None:
        return "pair" if data.paired else architecture.replace("auto", "flat")
    if isinstance(state.settings, TextSettings) and state.settings.pooling == ALIGNMENT:
        return "flat"
    # A sample tells short texts from documents.
    words = split_words(data.texts[0].head(1000), sentences=True)
    num_texts = len(words.texts) - 1
    mean_words = len(words.words) / num_texts
    mean_sentences = words.texts[-1] / num_texts
    return "hierarchical" if mean_words > DOCUMENT_WORDS and mean_sentences > DOCUMENT_SENTENCES else "flat"


def _note_cuts(state: ClassifyState, sides: Sides) -> None:
    cut = sum(tokens.cut_words for tokens in sides)
    if cut:
        texts = sum(tokens.cut_texts for tokens in sides)
        state.metadata.notes.append(
            f"the length limits removed {plural(cut, 'word')} from {plural(texts, 'training text')}"
        )


def _fit_baselines(state: ClassifyState, data: FoldedTexts, valid: FoldedTexts) -> dict[str, Unseen]:
    """Fit the baselines, and return the scores of each for texts that it was not trained on."""
    if missing := int((~known(valid.targets)).sum()):
        state.metadata.notes.append(
            f"validation texts whose label is not in the training data (counted as wrong): {missing:,}"
        )
    matrix = _matrix(state)
    if matrix is None and state.model_name == "vectors":
        raise SettingError("model vectors needs a file of word vectors; set vectors=FILE")
    unseen = {}
    state.counting = {}
    for name in COUNTING:
        if name == "vectors" and matrix is None:
            continue
        # The strength is open: several are tried.
        make = partial(state.new_baseline, name, matrix=matrix)
        fitted = fit_baseline(make, data, valid, _strength(state, name))
        state.metadata.strength[name] = fitted.strength
        state.counting[name] = fitted.model
        unseen[name] = fitted.unseen
        if name != "majority":
            state.metadata.temperature[name] = fitted.unseen.temperature()
        state.choose_thresholds(name, *fitted.unseen.usable())
    for name in state.counting:
        _note_accuracy(state, name, valid)
    return unseen


def _strength(state: ClassifyState, name: str) -> float | None:
    """Return the strength set for a baseline; 1 for one without that setting."""
    settings = state.settings
    is_set = name == state.model_name and state.options.get("strength") is not None
    if is_set and isinstance(settings, LinearSettings):
        return settings.strength
    return 1.0 if name == "majority" else None


def _matrix(state: ClassifyState) -> npt.NDArray[np.float32] | None:
    """Return the vectors of the file by id, (words, dim), zeros where it has none; ``None`` without a file."""
    path, tokenizer = state.settings.vectors, state.tokenizer
    if path is None:
        return None
    ids, vectors = initial_vectors(path, tokenizer.vocabulary.values, state.settings.dim)
    matrix = np.zeros((len(tokenizer.vocabulary), vectors.shape[1]), np.float32)
    matrix[ids] = vectors
    state.metadata.known_vectors = len(ids)
    return matrix


def _calibrate(state: ClassifyState, name: str, valid: FoldedTexts) -> None:
    """Fit the temperature of a network to held-out texts, and note its accuracy and calibration error there."""
    usable = usable_texts(valid.sides, valid.targets)
    scores = state.raw_scores(valid.sides, None if name == state.model_name else name)
    state.metadata.temperature[name] = temperature(scores[usable], valid.targets[usable])
    state.choose_thresholds(name, scores[usable], valid.targets[usable])
    _note_accuracy(state, name, valid)


def _note_accuracy(state: ClassifyState, name: str, valid: FoldedTexts) -> None:
    probabilities = state.probabilities(valid.sides, None if name == state.model_name else name)
    is_right = probabilities.argmax(1) == valid.targets if valid.targets.ndim == 1 else None
    if is_right is None:
        is_right = (state.predicted_sets(probabilities, name) == valid.targets).all(1)
    state.metadata.validation_accuracy[name] = float(is_right.mean())
    state.metadata.calibration_error[name] = calibration_error(probabilities, valid.targets)


def _fit_settings(state: ClassifyState, num_texts: int) -> None:
    """Fit the settings of a network to the texts, unless it is the paper's, which has its Table 2."""
    vectors = state.counting.get("vectors")
    settings = state.settings
    is_built_in = MODELS[state.model_name].schedule is SCHEDULE  # models of other authors have schedules of their own
    if not is_built_in or not isinstance(settings, TextSettings) or not settings.residual:
        return
    learns_vectors = not isinstance(vectors, MeanVectors) and state.encoder is None
    widths: dict[str, int] = WIDTHS_WITHOUT_VECTORS if learns_vectors else {}
    if isinstance(vectors, MeanVectors):
        widths = {"hidden": vectors.matrix.shape[1]}
    schedule = schedule_for(num_texts, MAX_EPOCHS_OF_BEST if learns_vectors and len(state.names) > 1 else MAX_EPOCHS)
    state.select_model(state.model_name, state.architecture, {**schedule, **widths})
