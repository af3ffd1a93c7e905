"""How a text classifier is trained: words and counts first, then the network, then the temperature of each."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ensue.data.histories import Index
from ensue.data.texts import Texts, hold_out_texts
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.settings import require_encoder, require_file
from ensue.tasks.classify import infer, save
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.settings import CountingSettings
from ensue.tasks.classify.calibration import calibration_error, temperature
from ensue.tasks.classify.catalogue import COUNTING, MODELS
from ensue.tasks.classify.cross_fitting import FOLDS, Data, Unlearned, count_best, folds_of, out_of_fold
from ensue.tasks.classify.dataset import Sides, codes, prints
from ensue.tasks.classify.embedding import learn_words, start_vectors
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.metadata import Metadata
from ensue.tasks.classify.mixing_time import Log, mixing, note_collapse
from ensue.tasks.classify.model import Network
from ensue.tasks.classify.models.alignment import ALIGNMENT
from ensue.tasks.classify.models.centrality import LEARNED_DIM, SCHEDULE, TextClassifier, TextSettings
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.classify.remembered import chosen
from ensue.tasks.classify.sizes import LEARNED, schedule_for
from ensue.tasks.classify.state import ClassifyState
from ensue.text.tokens import split_words
from ensue.training.loop import train
from ensue.training.report import Report

_COUNTED = "counted"
DOCUMENT = (64, 3)
"""Texts of more words and sentences than this on average are documents."""


def fit(
    state: ClassifyState, data: Texts, valid: Texts | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.fit`."""
    require_file("vectors", state.settings.vectors)
    if state.encoder is not None:
        require_encoder(state.encoder.name)
    require_labels(data, "training data")
    part, held, rule = data, valid, None
    if held is None:
        part, held, rule = hold_out_texts(data, seed=state.seed)
    require_labels(part, "training data")
    _require_like(part, held)
    _learn_words(state, data if state.schedule is None else part)
    if rule is not None:
        state.metadata.held_out = rule
    sides = state.encode(part)
    _note_cuts(state, sides)
    learned = _data(state, sides, part)
    counted = _count(state, learned, _data(state, state.encode(held), held))
    if state.schedule is not None:
        yield from _train(state, learned, held, checkpoint, resume)
        nats: dict[str, float] = {}
        if state.model_name == "blend":
            _blend(state, held, counted)
            nats = _nats(state, held, counted)
        if nats:  # whose weights are those of likeliest labels
            state.metadata.temperature[state.model_name] = 1.0
            _note_accuracy(state, state.model_name, state.encode(held), codes(held, state.labels))
        else:
            _calibrate(state, state.model_name, held)
        _decide(state, nats)
    if rule is not None:
        _learn_held_out(state, data)
    if state.schedule is None:
        state.model, state.optimizer = state.counting[state.model_name], None
    state.remembered = None
    if state.encoder is None:  # which reads texts, and those do not stay
        targets = codes(held, state.labels)
        state.remembered = chosen(state.encode(held), targets, state.shared.remembered, state.seed)


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


def _require_like(part: Texts, held: Texts) -> None:
    if not len(held):
        raise DataError("validation data: there are no texts")
    if held.labels is None:
        raise DataError("validation data: the texts have no labels; name their column, such as label=COLUMN")
    if held.paired != part.paired:
        kinds = ("pairs", "single texts") if held.paired else ("single texts", "pairs")
        raise DataError(f"validation data: these are {kinds[0]}, but the training data holds {kinds[1]}")


def _learn_words(state: ClassifyState, data: Texts) -> None:
    """Take labels, words and metadata from the training data."""
    assert data.labels is not None
    distinct = set(data.labels.to_list())
    numbers = all(label.removeprefix("-").isdecimal() for label in distinct)
    labels = sorted(distinct, key=(lambda label: (int(label), label)) if numbers else None)
    architecture = _architecture(state, data)
    state.select_model(state.model_name, architecture)
    own = state.settings
    state.tokenizer = learn_words(
        data.texts, lower=own.lower, min_count=own.min_count, vectors=own.vectors, extra_words=own.extra_words
    )
    state.train_prints = torch.from_numpy(np.unique(prints(data)))
    state.metadata = metadata = Metadata()
    metadata.texts, metadata.labels, metadata.paired = len(data), labels, data.paired
    metadata.architecture = architecture
    metadata.temperature, metadata.strength = {}, {}
    metadata.calibration_error, metadata.validation_accuracy, metadata.notes = {}, {}, []
    if state.encoder is not None:
        metadata.encoder = state.encoder.probe()


def _architecture(state: ClassifyState, data: Texts) -> str:
    architecture = str(getattr(state.settings, "architecture", "auto"))
    if (architecture == "pair") != data.paired and architecture != "auto":
        kind = "pairs" if data.paired else "single texts"
        raise SettingError(f"architecture is {architecture!r}, but the training data holds {kind}; leave it at auto")
    if architecture != "auto" or data.paired or state.schedule is None:
        return "pair" if data.paired else architecture.replace("auto", "flat")
    if isinstance(state.settings, TextSettings) and state.settings.pooling == ALIGNMENT:
        return "flat"
    words = split_words(data.texts[0].head(1000), sentences=True)
    num_words, num_sentences = len(words.words) / len(words.texts[1:]), words.texts[-1] / len(words.texts[1:])
    return "hierarchical" if num_words > DOCUMENT[0] and num_sentences > DOCUMENT[1] else "flat"


def _note_cuts(state: ClassifyState, sides: Sides) -> None:
    cut = sum(tokens.cut_words for tokens in sides)
    if cut:
        texts = sum(tokens.cut_texts for tokens in sides)
        state.metadata.notes.append(f"the caps cut {plural(cut, 'word')} of {plural(texts, 'training text')}")


def _data(state: ClassifyState, sides: Sides, texts: Texts) -> Data:
    return Data(sides, codes(texts, state.labels), folds_of(texts, state.seed))


def _count(state: ClassifyState, learned: Data, held: Data) -> dict[str, Unlearned]:
    """Fit what stands beside every model; returns what each says of texts that it did not learn."""
    if missing := int((held.targets < 0).sum()):
        state.metadata.notes.append(
            f"validation texts whose labels the training data lacks, which count as wrong: {missing:,}"
        )
    matrix = _matrix(state)
    if matrix is None and state.model_name == "vectors":
        raise SettingError("model vectors is a mean of word vectors and needs a file of them: set vectors=FILE")
    state.counting, unlearned = {}, {}
    for name in COUNTING:
        if name == "vectors" and matrix is None:
            continue
        found = count_best(state, name, matrix, learned, held, _strength(state, name))
        state.metadata.strength[name], state.counting[name] = found.strength, found.model
        unlearned[name] = found.unlearned
        if name != "majority":
            state.metadata.temperature[name] = temperature(*found.unlearned.usable())
    for name in state.counting:
        _note_accuracy(state, name, held.sides, held.targets)
    return unlearned


def _strength(state: ClassifyState, name: str) -> float | None:
    """What was set for a counting model; 1 for the one that has none."""
    own = state.settings
    if name == state.model_name and isinstance(own, CountingSettings) and state.options.get("strength") is not None:
        return own.strength
    return 1.0 if name == "majority" else None


def _learn_held_out(state: ClassifyState, data: Texts) -> None:
    """Fit the counting models anew on all texts, those that were held out too, with the strengths found."""
    sides, targets = state.encode(data), codes(data, state.labels)
    for name, former in state.counting.items():
        matrix = former.matrix if isinstance(former, MeanVectors) else None
        model = state.new_counting(name, state.metadata.strength[name], matrix)
        model.count(sides, targets)
        state.counting[name] = model
    if state.schedule is None:
        state.model = state.counting[state.model_name]
    state.train_prints = torch.from_numpy(np.unique(prints(data)))
    state.metadata.texts = len(data)


def _matrix(state: ClassifyState) -> Tensor | None:
    """(words, dim) vectors of the file by id, zeros where it has none; ``None`` without a file."""
    path, tokenizer = state.settings.vectors, state.tokenizer
    if path is None:
        return None
    ids, vectors = start_vectors(path, tokenizer.vocabulary.values, state.settings.dim)
    matrix = torch.zeros(len(tokenizer.vocabulary), vectors.shape[1])
    matrix[ids] = vectors
    state.metadata.known_vectors = len(ids)
    return matrix


def _calibrate(state: ClassifyState, name: str, held: Texts) -> None:
    """Find the temperature of a network on held-out texts, and note how right and how sure it is there."""
    targets, sides = codes(held, state.labels), state.encode(held)
    usable = _usable(sides, targets)
    scores = infer.raw_scores(state, sides, None if name == state.model_name else name)[torch.from_numpy(usable)]
    state.metadata.temperature[name] = temperature(scores, torch.from_numpy(targets[usable]))
    _note_accuracy(state, name, sides, targets)


def _note_accuracy(state: ClassifyState, name: str, sides: Sides, targets: Index) -> None:
    probabilities = infer.probabilities(state, sides, None if name == state.model_name else name)
    if not np.isfinite(probabilities).all():
        raise SettingError(f"the probabilities of {name} are no numbers; set it nearer to its defaults")
    state.metadata.validation_accuracy[name] = float((probabilities.argmax(1) == targets).mean())
    state.metadata.calibration_error[name] = calibration_error(probabilities, targets)


def _usable(sides: Sides, targets: Index) -> npt.NDArray[np.bool_]:
    """(texts,) those with a known label and a word at least."""
    usable: npt.NDArray[np.bool_] = (targets >= 0) & (np.sum([tokens.lengths for tokens in sides], axis=0) > 0)
    return usable


def _blend(state: ClassifyState, held: Texts, counted: Mapping[str, Unlearned]) -> None:
    """Pool the counting models by what they say of texts they did not learn, and the network with that pool."""
    _calibrate(state, blend.NETWORK, held)
    sides, targets = state.encode(held), codes(held, state.labels)
    usable = torch.from_numpy(_usable(sides, targets))
    names = [blend.NETWORK, *(name for name in blend.PARTS if name in counted)]
    scores = {name: infer.raw_scores(state, sides, name)[usable] for name in names}
    state.metadata.blend = _weights(scores, torch.from_numpy(targets)[usable], counted)


def _weights(scores: Mapping[str, Tensor], targets: Tensor, counted: Mapping[str, Unlearned]) -> dict[str, float]:
    """The pool of the counting models by all that they did not learn, and its weight beside the network's.

    Args:
        scores: of the network and the counting models, (texts, labels).
        targets: (texts,).
        counted: what each counting model says of texts it did not learn: these texts, and of few those of all folds.
    """
    usable = {name: counted[name].usable() for name in blend.PARTS if name in counted}
    weights = blend.choose_weights({name: own for name, (own, _) in usable.items()}, usable["tfidf"][1])
    pooled = blend.pool({name: scores[name] for name in weights}, weights)
    prior = {blend.NETWORK: 0.0, _COUNTED: 1.0}  # the network has to earn its part
    own = blend.choose_weights({blend.NETWORK: scores[blend.NETWORK], _COUNTED: pooled}, targets, prior)
    return {
        blend.NETWORK: own[blend.NETWORK],
        **{name: weight * own[_COUNTED] for name, weight in weights.items()},
    }


def _new_network(state: ClassifyState) -> Network:
    """An untrained network that starts from the vectors of the file, if there is one."""
    if state.encoder is not None:
        return state.new_network(0, state.encoder.dim)
    num_words, own, vectors = len(state.tokenizer.vocabulary), state.settings, state.counting.get("vectors")
    if not isinstance(vectors, MeanVectors):
        return state.new_network(num_words, own.dim or LEARNED_DIM)
    assert isinstance(own, TextSettings)
    network, covered = state.new_network(num_words, vectors.matrix.shape[1]), vectors.matrix.any(1)
    network.place(covered.nonzero()[:, 0], vectors.matrix[covered], tuned=own.tuned)
    return network


def _train(
    state: ClassifyState, learned: Data, held: Texts, checkpoint: Path | None, resume: bool
) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights."""
    below = _start_from_row(state, learned)
    schedule = state.schedule
    assert schedule is not None
    torch.manual_seed(state.seed)
    state.model = _new_network(state)
    state.optimizer = new_optimizer(state.module, schedule)
    held_targets, held_sides = codes(held, state.labels), state.encode(held)
    data, watched = state.passages(learned.sides, learned.targets, below), state.passages(held_sides, held_targets)
    log = Log(checkpoint, resume)
    reports = train(
        state.module,
        data,
        lambda: float((infer.raw_scores(state, held_sides).argmax(1).numpy() == held_targets).mean()),
        schedule,
        optimizer=state.optimizer,
        seed=state.seed,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=save.fingerprint(state, {"data": data, "held": watched}),
    )
    trained = yield from log.follow(reports, lambda: mixing(state, watched))
    state.metadata.epochs, state.metadata.log = trained.best_epoch, log.rows()
    state.seconds_an_epoch = trained.seconds_an_epoch
    note_collapse(state.metadata, trained.best_epoch)
    if trained.best_epoch == schedule.epochs > 1:
        state.metadata.notes.append(
            f"training ended after {schedule.epochs} epochs while validation texts were still getting better; give more"
        )
    _rest_unless_better(state, held_sides, held_targets)


def _start_from_row(state: ClassifyState, learned: Data) -> Tensor | None:
    """Fit settings to the texts; where the network stands on the mean-vector row, what that says of texts it lacked."""
    row, own = state.counting.get("vectors"), state.settings
    if MODELS[state.model_name].schedule is not SCHEDULE or not isinstance(own, TextSettings) or not own.residual:
        return None  # a model of one's own says itself how it is trained, and the paper's has its Table 2
    width = {"hidden": row.matrix.shape[1]} if isinstance(row, MeanVectors) else {} if state.encoder else LEARNED
    state.select_model(state.model_name, state.architecture, {**schedule_for(len(learned.targets)), **width})
    if not isinstance(row, MeanVectors):
        return None
    state.metadata.residual = True
    return out_of_fold(state, "vectors", state.metadata.strength["vectors"], row.matrix, learned)


def _rest_unless_better(state: ClassifyState, sides: Sides, targets: Index) -> None:
    """Let a network add nothing to the row it stands on where held-out labels are no likelier with it."""
    network = state.module
    if not state.metadata.residual or not isinstance(network, TextClassifier):
        return
    with_it = Unlearned(infer.raw_scores(state, sides, blend.NETWORK), targets)
    alone = Unlearned(state.counting["vectors"].scores(sides), targets)
    if with_it.loss() >= alone.loss():
        network.rest()
        state.metadata.notes.append("the network adds nothing to the mean of the vectors on the validation texts")


def _decide(state: ClassifyState, nats: Mapping[str, float]) -> None:
    """Say which of the models is right most often on held-out texts; under ``best``, become the likeliest one.

    Of few held-out texts one more or less right says little; what their labels cost in nats says more.
    """
    accuracy, own = state.metadata.validation_accuracy, state.model_name
    if len(state.names) == 1:
        best = max(accuracy, key=lambda name: (accuracy[name], name == own))
        if best != own:
            state.metadata.notes.append(
                f"{best} is right more often than {own} on the validation texts: "
                f"{accuracy[best]:.3f} against {accuracy[own]:.3f}"
            )
        return
    best = min((name for name in state.names if name in nats), key=lambda name: (nats[name], name != own))
    if best != own:
        state.metadata.notes.append(
            f"{best} alone is the answer: nothing that was tried beats it on the validation texts, where a label "
            f"costs {nats[best]:.3f} nats with it and {nats[own]:.3f} with {own}"
        )
        state.select_model(best)
        state.metadata.unset("blend")


def _nats(state: ClassifyState, held: Texts, counted: Mapping[str, Unlearned]) -> dict[str, float]:
    """By model, what a label of the held-out texts costs; of the blend with weights that other folds chose."""
    sides, targets = state.encode(held), codes(held, state.labels)
    usable = np.flatnonzero(_usable(sides, targets))
    if not len(usable):
        return {state.model_name: 0.0}
    wanted, folds = torch.from_numpy(targets[usable]), folds_of(held, state.seed)[usable]
    scores = {name: part.scores[: len(held)][torch.from_numpy(usable)] for name, part in counted.items()}
    nats = {
        name: float(cross_entropy(own.double() / state.metadata.temperature.get(name, 1.0), wanted))
        for name, own in scores.items()
    }
    scores[blend.NETWORK] = infer.raw_scores(state, sides, blend.NETWORK)[torch.from_numpy(usable)]
    pooled = torch.zeros(len(usable), len(state.labels)).double()
    for fold in range(FOLDS):
        inside, outside = (torch.from_numpy(np.flatnonzero(chosen)) for chosen in (folds == fold, folds != fold))
        weights = _weights({name: own[outside] for name, own in scores.items()}, wanted[outside], counted)
        pooled[inside] = blend.pool({name: scores[name][inside] for name in weights}, weights)
    return {**nats, state.model_name: float(cross_entropy(pooled, wanted))}
