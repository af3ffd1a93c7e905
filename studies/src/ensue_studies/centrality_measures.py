"""What centrality's study measures of trained models: paired accuracy, steps to converge, and the time of a step."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ensue.data.histories import Index
from ensue.data.texts import Texts
from ensue.evaluation import bootstrap
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.classify import TextScored
from ensue.metrics import Floats, macro_f1
from ensue.nn.centrality import second_eigenvalue, steps_to_converge
from ensue.tasks.classify.calibration import BINS
from ensue.tasks.classify.catalogue import MODELS
from ensue.tasks.classify.dataset import Passages
from ensue.tasks.classify.models.centrality import Shape, TextClassifier
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.text.tokens import Tokens
from ensue.vocabulary import FIRST
from ensue_studies.centrality_paper import STEPS, TOLERANCE
from ensue_studies.rows import Rows, Values
from ensue_studies.sets import evenly
from ensue_studies.timing import beside, timed_steps

MEASURES = ("accuracy", "macro_f1", "calibration_error")
CAP = 5000
"""Steps of the power method at most: the cap of the released program in evaluation."""
LENGTHS = (2, 5, 9, 17, 33, 65, 129)
"""Where a class of lengths begins; the last one has no end."""
_FINE = 65_535  # a multiple of BINS: the bounds of the bins of the calibration error stay where they are


@dataclass(frozen=True, eq=False)
class Answers:
    """One model's answer to every text: the code of a label, and the probability it was given."""

    given: Index
    sure: Floats

    def pack(self) -> dict[str, str]:
        """Short texts for a file of cells: a character a label, two bytes a probability."""
        fine = np.rint(self.sure * _FINE).astype("<u2")
        return {"given": (self.given + ord("0")).astype(np.uint8).tobytes().decode("ascii"), "sure": _text(fine)}

    @classmethod
    def unpack(cls, cell: Mapping[str, str]) -> Answers:
        """What :meth:`pack` has written; probabilities to 1 / 65,535."""
        given = np.frombuffer(cell["given"].encode("ascii"), np.uint8).astype(np.int64) - ord("0")
        return cls(given, np.frombuffer(base64.b64decode(cell["sure"]), "<u2") / _FINE)

    @classmethod
    def of(cls, scored: TextScored) -> Answers:
        """Of what the evaluator has scored."""
        return cls(scored.given, scored.sure)


def _text(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def resample(
    runs: Mapping[str, Sequence[Answers]], targets: Index, owners: Index, resamples: int
) -> dict[str, BootstrapResult]:
    """Draw texts anew, the same for all models, and of each model its seeds.

    Args:
        runs: answers of each model, one a seed.
        targets: (texts,) codes of the true labels.
        owners: (texts,) what each text is drawn with.
        resamples: how often.
    """
    num_labels = 1 + max(int(targets.max()), *(int(run.given.max()) for seeds in runs.values() for run in seeds))
    counted = [[_Counted(run, targets, num_labels) for run in seeds] for seeds in runs.values()]

    def figures(times: Floats) -> Iterator[Floats]:
        for seeds in counted:
            yield np.array([[run.figures(times[0][owners])] for run in seeds])

    whole = np.ones(len(targets))
    by_seed = [np.array([run.figures(whole) for run in seeds]) for seeds in counted]
    units = int(owners.max()) + 1
    drawn = bootstrap.resample([*map(len, counted)], units, figures, order="in turn", resamples=resamples)
    return {
        name: BootstrapResult(MEASURES, seeds, draws) for name, seeds, draws in zip(runs, by_seed, drawn, strict=True)
    }


class _Counted:
    """Answers, made ready to be counted with weights."""

    def __init__(self, run: Answers, targets: Index, num_labels: int) -> None:
        self.num_labels = num_labels
        self.pairs = run.given * num_labels + targets
        self.bins = np.clip(np.ceil(run.sure * BINS).astype(np.int64) - 1, 0, BINS - 1)
        self.apart = run.sure - (run.given == targets)

    def figures(self, times: Floats) -> list[float]:
        """``MEASURES``, where each text counts so many times."""
        table = np.bincount(self.pairs, times, self.num_labels**2).reshape(self.num_labels, -1)
        counts = np.stack([table.diagonal(), table.sum(1), table.sum(0)])
        error = np.abs(np.bincount(self.bins, times * self.apart, BINS)).sum()
        return [float(counts[0].sum() / times.sum()), macro_f1(counts), float(error / times.sum())]


def owners(texts: Texts) -> Index:
    """(texts,) what is drawn together: whole groups, all pairs of a first text, else single texts."""
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    if column is None:
        return np.arange(len(texts))
    codes: Index = column.rank("dense").to_numpy().astype(np.int64) - 1
    return codes


@torch.no_grad()
def convergence(predictor: ClassifyPredictor, texts: Texts, most: int) -> Rows:
    """Figure 4 by length: steps of the power method on the graphs of some texts, from uniform, in float64 throughout.

    Args:
        predictor: with a network that pools by centrality.
        texts: of which so many, spread evenly, are looked at; a graph of one word is left out.
        most: how many.
    """
    network = copy.deepcopy(predictor.module).cpu().double().eval()
    passages = predictor.passages(predictor.encode(evenly(texts, most)))
    found: dict[str, list[npt.NDArray[np.float64]]] = {"words": [], "sentences": []}
    for index in passages.groups():
        batch = passages.batch(index)
        output = network(batch)
        levels = {"words": (batch.words, output.words), "sentences": (batch.sentences, output.sentences)}
        for level, (blocks, pooled) in levels.items():
            for block, part in zip(blocks, pooled, strict=True):
                steps = steps_to_converge(part.graph, block.mask, TOLERANCE, CAP)
                slow = second_eigenvalue(part.graph, block.mask)
                found[level].append(torch.stack([block.lengths.double(), steps.double(), slow]).numpy())
    return [row for level, parts in found.items() if parts for row in by_length(level, np.concatenate(parts, 1))]


def by_length(level: str, graphs: npt.NDArray[np.float64]) -> Rows:
    """A row a class of lengths of (length, steps, |lambda_2|) columns; empty classes are left out."""
    rows = []
    for low, high in zip(LENGTHS, (*LENGTHS[1:], np.inf), strict=True):
        own = graphs[1:, (graphs[0] >= low) & (graphs[0] < high)]
        if own.shape[1]:
            middle, most, largest = np.percentile(own[0], [50, 90, 100])
            rows.append(
                {
                    "graphs_of": level,
                    "length": f"{low}-{high - 1:.0f}" if np.isfinite(high) else f"{low}+",
                    "graphs": own.shape[1],
                    "median": float(middle),
                    "ninth_decile": float(most),
                    "largest": float(largest),
                    f"within_{STEPS}": float((own[0] <= STEPS).mean()),
                    "second_eigenvalue": float(own[1].mean()),
                }
            )
    return rows


def step_times(models: Sequence[str], options: Values, lengths: Mapping[str, Index], *, dim: int, repeats: int) -> Rows:
    """Seconds of a training step of a flat network under each pooling; they take turns, so that noise meets them all.

    Args:
        models: names in ``MODELS``.
        options: settings of the network to change.
        lengths: (texts,) words of the texts of a batch, by what they are called.
        dim: width of the vectors of words.
        repeats: turns, after one that is not counted.
    """
    rows = []
    for kind, sizes in lengths.items():
        tokens = Tokens(
            np.random.default_rng(0).integers(FIRST, 1000, int(sizes.sum())).astype(np.int32),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.arange(len(sizes) + 1),
        )
        batch = Passages((tokens,), np.arange(len(sizes)) % 2).batch(np.arange(len(sizes)))
        torch.manual_seed(0)
        networks = {
            name: TextClassifier(replace(MODELS[name].settings, **options), Shape(1000, dim, 2, "flat"))
            for name in models
        }
        times = timed_steps({name: (own, partial(own.loss, batch)) for name, own in networks.items()}, repeats)
        peer = times.get("self-attention")
        rows += [{"lengths": kind, "model": name, **beside(own, peer or own)} for name, own in times.items()]
    return rows
