"""How a text classifier is trained: words and counts first, then the network, then the temperature of each."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.texts import Texts, hold_out_texts
from ensue.data.tokens import split_words
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.settings import require_encoder, require_file
from ensue.tasks.classify import COUNTING, blend, storage
from ensue.tasks.classify.calibration import calibration_error, temperature
from ensue.tasks.classify.counting import Sides
from ensue.tasks.classify.embedding import learn_words, start_vectors
from ensue.tasks.classify.keeping import chosen
from ensue.tasks.classify.mixing import Log, mixing, note_collapse
from ensue.tasks.classify.network import LEARNED_DIM
from ensue.training.loop import Report, train

if TYPE_CHECKING:
    from ensue.tasks.classify.predictor import ClassifyPredictor

DOCUMENT = (64, 3)
"""Texts of more words and sentences than this on average are documents."""
STRENGTHS = (1.0, 10.0)
"""Strengths of the linear models among which held-out texts decide."""


def fit(
    predictor: ClassifyPredictor, data: Texts, valid: Texts | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.fit`."""
    require_file("vectors", predictor.settings.vectors)
    if predictor.encoder is not None:
        require_encoder(predictor.encoder.name)
    require_labels(data, "training data")
    part, held, rule = data, valid, None
    if held is None:
        part, held, rule = hold_out_texts(data, seed=predictor.seed)
    require_labels(part, "training data")
    _require_like(part, held)
    _learn_words(predictor, part)
    if rule is not None:
        predictor.facts["held_out"] = rule
    facts, sides = predictor.facts, predictor.encode(part)
    _note_cuts(facts, sides)
    _count(predictor, sides, codes(part, predictor.labels), held)
    if predictor.schedule is not None:
        yield from _train(predictor, sides, part, held, checkpoint, resume)
        if predictor.model_name == "blend":
            _blend(predictor, held)
        _calibrate(predictor, predictor.model_name, held)
        _decide(predictor)
    if predictor.schedule is None:
        predictor.model, predictor.optimizer = predictor.counting[predictor.model_name], None
    predictor.remembered = None
    if predictor.encoder is None:  # which reads texts, and those do not stay
        asked = codes(held, predictor.labels)
        predictor.remembered = chosen(predictor.encode(held), asked, predictor.keeping.remembered, predictor.seed)


def require_labels(texts: Texts, where: str) -> None:
    """Refuse texts from which no difference between labels can be learned.

    Raises:
        DataError: no texts, no labels, or only one.
    """
    if not len(texts):
        raise DataError(f"{where}: there are no texts")
    if texts.labels is None:
        raise DataError(f"{where}: the texts have no labels; name their column, such as label=COLUMN")
    if texts.labels.n_unique() < 2:
        raise DataError(f"{where}: every text has the label {texts.labels[0]!r}; give texts of at least two labels")


def codes(texts: Texts, labels: Sequence[str]) -> Index:
    """(texts,) which of the labels each text has; -1 for one that is not among them.

    Raises:
        DataError: the texts have no labels.
    """
    if texts.labels is None:
        raise DataError("the texts have no labels; name their column, such as label=COLUMN")
    known = {label: code for code, label in enumerate(labels)}
    found = texts.labels.replace_strict(list(known), list(known.values()), default=-1, return_dtype=pl.Int64)
    return np.array(found.to_numpy(), np.int64)


def prints(texts: Texts) -> npt.NDArray[np.int64]:
    """(texts,) fingerprints of the texts, case and spaces aside."""
    columns = [column.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars() for column in texts.texts]
    key = columns[0] if len(columns) == 1 else columns[0] + "\t" + columns[1]
    found = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in key.to_list())
    return np.frombuffer(found, np.int64)


def _require_like(part: Texts, held: Texts) -> None:
    if not len(held):
        raise DataError("validation data: there are no texts")
    if held.labels is None:
        raise DataError("validation data: the texts have no labels; name their column, such as label=COLUMN")
    if held.paired != part.paired:
        kinds = ("pairs", "single texts") if held.paired else ("single texts", "pairs")
        raise DataError(f"validation data: these are {kinds[0]}, but the training data holds {kinds[1]}")


def _learn_words(predictor: ClassifyPredictor, data: Texts) -> None:
    """Take labels, words and facts from the training data."""
    assert data.labels is not None
    found = set(data.labels.to_list())
    numbers = all(label.removeprefix("-").isdecimal() for label in found)
    labels = sorted(found, key=(lambda label: (int(label), label)) if numbers else None)
    architecture = _architecture(predictor, data)
    predictor.become(predictor.model_name, architecture)
    own, probe = predictor.settings, None if predictor.encoder is None else predictor.encoder.probe()
    predictor.tokenizer = learn_words(
        data.texts, lower=own.lower, min_count=own.min_count, vectors=own.vectors, extra_words=own.extra_words
    )
    predictor.train_prints = torch.from_numpy(np.unique(prints(data)))
    predictor.facts = {
        "texts": len(data),
        "labels": labels,
        "paired": data.paired,
        "architecture": architecture,
        "temperature": {},
        "strength": {},
        "calibration_error": {},
        "validation_accuracy": {},
        "notes": [],
        **({} if probe is None else {"encoder": probe}),
    }


def _architecture(predictor: ClassifyPredictor, data: Texts) -> str:
    asked = str(getattr(predictor.settings, "architecture", "auto"))
    if (asked == "pair") != data.paired and asked != "auto":
        kind = "pairs" if data.paired else "single texts"
        raise SettingError(f"architecture is {asked!r}, but the training data holds {kind}; leave it at auto")
    if asked != "auto" or data.paired or predictor.schedule is None:
        return "pair" if data.paired else asked.replace("auto", "flat")
    words = split_words(data.texts[0].head(1000), sentences=True)
    num_words, num_sentences = len(words.words) / len(words.texts[1:]), words.texts[-1] / len(words.texts[1:])
    return "hierarchical" if num_words > DOCUMENT[0] and num_sentences > DOCUMENT[1] else "flat"


def _note_cuts(facts: dict[str, Any], sides: Sides) -> None:
    cut = sum(tokens.cut_words for tokens in sides)
    if cut:
        texts = sum(tokens.cut_texts for tokens in sides)
        facts["notes"].append(f"the caps cut {plural(cut, 'word')} of {plural(texts, 'training text')}")


def _count(predictor: ClassifyPredictor, sides: Sides, targets: Index, held: Texts) -> None:
    """Fit what stands beside every model; held-out texts choose the strength of the linear ones."""
    asked = codes(held, predictor.labels)
    if missing := int((asked < 0).sum()):
        predictor.facts["notes"].append(
            f"validation texts whose labels the training data lacks, which count as wrong: {missing:,}"
        )
    matrix = _matrix(predictor)
    if matrix is None and predictor.model_name == "vectors":
        raise SettingError("model vectors is a mean of word vectors and needs a file of them: set vectors=FILE")
    known, predictor.counting = predictor.encode(held), {}
    for name in COUNTING:
        if name == "vectors" and matrix is None:
            continue
        strength = predictor.options.get("strength") if name == predictor.model_name else None
        tried = {}
        for value in (STRENGTHS if strength is None else (predictor.settings.strength,))[
            : 1 if name == "majority" else 2
        ]:
            predictor.facts["strength"][name] = value
            module = storage.new_counting(predictor, name, torch.zeros(0, 0) if matrix is None else matrix)
            module.count(sides, targets)
            tried[value] = float((module.scores(known).argmax(1).numpy() == asked).mean()), module
        best = max(tried, key=lambda value: tried[value][0])
        predictor.facts["strength"][name], predictor.counting[name] = best, tried[best][1]
    for name in predictor.counting:
        _calibrate(predictor, name, held)


def _matrix(predictor: ClassifyPredictor) -> Tensor | None:
    """(words, dim) vectors of the file by id, zeros where it has none; ``None`` without a file."""
    path, tokenizer = predictor.settings.vectors, predictor.tokenizer
    if path is None:
        return None
    ids, vectors = start_vectors(path, tokenizer.vocabulary.values, predictor.settings.dim)
    matrix = torch.zeros(len(tokenizer.vocabulary), vectors.shape[1])
    matrix[ids] = vectors
    predictor.facts["known_vectors"] = len(ids)
    return matrix


def _calibrate(predictor: ClassifyPredictor, name: str, held: Texts) -> None:
    """Find the temperature of a model on held-out texts, and note how right and how sure it is there."""
    facts, targets, sides = predictor.facts, codes(held, predictor.labels), predictor.encode(held)
    counting = None if name == predictor.model_name else name
    usable = _usable(sides, targets)
    if name != "majority":
        scores = predictor.raw_scores(sides, counting)[torch.from_numpy(usable)]
        facts["temperature"][name] = temperature(scores, torch.from_numpy(targets[usable]))
    found = predictor.probabilities(sides, counting)
    if not np.isfinite(found).all():
        raise SettingError(f"the probabilities of {name} are no numbers; set it nearer to its defaults")
    facts["validation_accuracy"][name] = float((found.argmax(1) == targets).mean())
    facts["calibration_error"][name] = calibration_error(found, targets)


def _usable(sides: Sides, targets: Index) -> npt.NDArray[np.bool_]:
    """(texts,) those with a known label and a word at least."""
    found: npt.NDArray[np.bool_] = (targets >= 0) & (np.sum([tokens.lengths for tokens in sides], axis=0) > 0)
    return found


def _blend(predictor: ClassifyPredictor, held: Texts) -> None:
    """Pool the network with the counting models, by what is likeliest on held-out texts."""
    _calibrate(predictor, blend.NETWORK, held)
    sides, targets = predictor.encode(held), codes(held, predictor.labels)
    usable = torch.from_numpy(_usable(sides, targets))
    names = [blend.NETWORK, *(name for name in blend.PARTS if name in predictor.counting)]
    scores = {name: predictor.raw_scores(sides, name)[usable] for name in names}
    predictor.facts["blend"] = blend.choose_weights(scores, torch.from_numpy(targets)[usable])


def _train(
    predictor: ClassifyPredictor, sides: Sides, part: Texts, held: Texts, checkpoint: Path | None, resume: bool
) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights."""
    schedule = predictor.schedule
    assert schedule is not None
    torch.manual_seed(predictor.seed)
    vectors = predictor.counting.get("vectors")
    dim = vectors.matrix.shape[1] if vectors else predictor.settings.dim or LEARNED_DIM  # type: ignore[union-attr]
    encoder = predictor.encoder
    network = predictor.new_network(
        *((len(predictor.tokenizer.vocabulary), dim) if encoder is None else (0, encoder.dim))
    )
    if vectors and encoder is None:
        known = vectors.matrix.any(1)  # type: ignore[union-attr]
        network.place(known.nonzero()[:, 0], vectors.matrix[known], tuned=predictor.settings.tuned)  # type: ignore[union-attr]
    predictor.model, predictor.optimizer = network, storage.new_optimizer(network, schedule)
    asked, known_sides = codes(held, predictor.labels), predictor.encode(held)
    data, watched = predictor.passages(sides, codes(part, predictor.labels)), predictor.passages(known_sides, asked)
    log = Log(checkpoint, resume)
    reports = train(
        network,
        data,
        lambda: float((predictor.raw_scores(known_sides).argmax(1).numpy() == asked).mean()),
        schedule,
        optimizer=predictor.optimizer,
        seed=predictor.seed,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=storage.fingerprint(predictor, {"data": data, "held": watched}),
    )
    trained = yield from log.follow(reports, lambda: mixing(predictor, watched))
    predictor.facts |= {"epochs": trained.best_epoch, "log": log.rows()}
    predictor.seconds_an_epoch = trained.seconds_an_epoch
    note_collapse(predictor.facts, trained.best_epoch)


def _decide(predictor: ClassifyPredictor) -> None:
    """Say which of the models is right most often on held-out texts; under ``best``, become that one."""
    found = predictor.facts["validation_accuracy"]
    rivals = [name for name in found if name in predictor.names] if len(predictor.names) > 1 else list(found)
    best, own = max(rivals, key=lambda name: (found[name], name == predictor.model_name)), predictor.model_name
    if best == own:
        return
    predictor.facts["notes"].append(
        f"{best} is right more often than {own} on the validation texts: {found[best]:.3f} against {found[own]:.3f}"
    )
    if len(predictor.names) > 1:
        predictor.become(best)
        predictor.facts.pop("blend", None)
