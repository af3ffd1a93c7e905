"""Models of the demonstration: one small model per question about a made-up event with known ground truth.

Every model is trained on the days before the last two and answers for the last two. Its metric is reported with the
best baseline and with the ceiling: the score of the true probabilities that the event was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ensue.answers import Explanation
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.texts import Texts
from ensue.demo.cascades import CascadeWorld
from ensue.demo.town import VALID_DAY, Session, Town, Written, histories_of, make_town, queries_of, texts_of
from ensue.evaluation.comparison import evaluate
from ensue.lazy import INSTALL, has_torch, torch
from ensue.predictor import make
from ensue.records import History
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.true_edges import Compared, compare
from ensue.training.report import Report

Log = Callable[[str], None]
"""Takes one line of progress."""
Progress = Callable[[Iterable[Report]], None]
"""Runs a training loop to its end and shows its progress."""

_BRIEF: dict[str, object] = {"dim": 32, "learning_rate": 1e-2, "dropout": 0.1, "batch_size": 64}
_SMALL: dict[str, object] = {"hidden": 24, "dim": 24, "head": 24, "dropout": 0.3}
_NARROW: dict[str, object] = {"dim": 48, "embedding": 48, "wide": 96, "heads": 2, "dropout": 0.1, "warm_up": 40}


class Panel(NamedTuple):
    """One of the five questions.

    Attributes:
        name: name of its model folder.
        question: question that the page shows.
        task: task of the library.
        model: name of the model.
        metric: reported metric, as the evaluator names it.
        settings: sizes and schedule that fit the town in seconds.
    """

    name: str
    question: str
    task: str
    model: str
    metric: str
    settings: dict[str, object]


PANELS = (
    Panel("posts", "Which article is this post about?", "link", "best", "mrr", {}),
    Panel("stance", "What does this post say?", "classify", "blend", "accuracy",
         {**_SMALL, "epochs": 6, "learning_rate": 6e-3, "patience": 3}),
    Panel("sharing", "Who passes it on next?", "next", "hidan", "mrr",
         {"dim": 32, "epochs": 14, "batch_size": 32, "learning_rate": 5e-3, "max_hours": 4.0, "weight_decay": 0.0}),
    Panel("reading", "What is read next?", "next", "sansr", "mrr", {**_BRIEF, "epochs": 14}),
    Panel("searching", "What is searched next?", "suggest", "best", "mrr@10",
         {**_NARROW, "epochs": 5, "learning_rate": 4e-3, "batch_size": 64}),
)  # fmt: skip
"""Delays in the town are hours, not days: HiDAN divides 4 hours into 40 intervals."""
BASELINES = {"stance": "tfidf", "sharing": "interpolated", "reading": "markov", "searching": "reranker"}
"""Models of the panels where torch is not installed."""


class SplitData(NamedTuple):
    """Training, validation and test data of one model."""

    train: Any
    valid: Any
    test: Any


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Metric of one model on the test days, as a fraction; ``half_width`` is half of its 95 % interval.

    ``ceiling`` is the metric of the true probabilities, ``verdict`` the evaluator's sentence on the best baseline.
    """

    name: str
    question: str
    task: str
    model: str
    metric: str
    num_questions: int
    score: float
    half_width: float
    baseline: str
    baseline_score: float
    ceiling: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Demo:
    """Data, fitted models and metrics of the demonstration."""

    story: Town
    rows: tuple[PanelRow, ...]
    predictors: Mapping[str, Any]
    explanation: Explanation
    recovery: Mapping[str, Compared]
    """HiDAN's attention compared with the true edges and the true sources; empty without torch."""

    def to_dict(self) -> dict[str, Any]:
        """Return one JSON object."""
        rows = [asdict(row) for row in self.rows]
        recovery = {truth: asdict(compared) for truth, compared in self.recovery.items()}
        return {"rows": rows, "explanation": asdict(self.explanation), "recovery": recovery}

    def lines(self) -> list[str]:
        """Return how often attention finds true edges and sources, as sentences."""
        return [f"attention of HiDAN, {compared.sentence(truth)}" for truth, compared in self.recovery.items()]

    def save(self, folder: Path) -> dict[str, Path]:
        """Write one folder per model and return their paths."""
        paths = {name: folder / name for name in self.predictors}
        folder.mkdir(parents=True, exist_ok=True)
        for name, predictor in self.predictors.items():
            predictor.save(paths[name], predictor.card())
        return paths


def run(seed: int, *, log: Log, progress: Progress) -> Demo:
    """Generate the town, fit, evaluate and explain; the same seed gives the same bytes."""
    if not has_torch():
        log(f"PyTorch is not installed, so the panels show baselines; {INSTALL}")
        panels = (panel._replace(model=BASELINES.get(panel.name, panel.model), settings={}) for panel in PANELS)
        return _run(seed, log, progress, tuple(panels))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, torch adds up the gradient of an indexed row in whatever order they come
    try:
        return _run(seed, log, progress, PANELS)
    finally:
        torch.set_num_threads(threads)


def _run(seed: int, log: Log, progress: Progress, panels: tuple[Panel, ...]) -> Demo:
    story = make_town(seed=seed)
    log(f"{story.title}: {len(story.people)} people, {len(story.articles)} articles, {len(story.posts):,} posts")
    log("the models are trained on the first days and scored on the last two; they never see the ground truth")
    data = data_of(story)
    rows = []
    predictors = {}
    for panel in panels:
        train, valid, test = data[panel.name]
        log(f"{panel.question} ({panel.task}, {panel.model}; {len(train):,} training rows)")
        predictor = make(panel.task, panel.model, settings=panel.settings, seed=seed, device="cpu")
        progress(predictor.fit(train, valid))
        predictors[panel.name] = predictor
        rows.append(_row(panel, predictor, test, CEILINGS[panel.name](story)))
    test = story.cascades.test
    # Long enough to show sources, short enough for one figure.
    row = int(np.flatnonzero((test.lengths >= 6) & (test.lengths <= 10))[0])
    sharing = predictors["sharing"]
    assert isinstance(sharing, NextPredictor)
    (explanation,) = sharing.explain([test.record(row)])
    recovered = recovery(sharing, test, story.cascades) if explanation.dependency else {}
    return Demo(story, tuple(rows), predictors, explanation, recovered)


def data_of(story: Town) -> dict[str, SplitData]:
    """Return the data of each panel, split by day."""
    articles = Articles.of(story.articles)
    return {
        "posts": SplitData(*(Corpus(articles, Posts.of(post.post for post in split)) for split in written(story))),
        "stance": SplitData(*(Texts.of(texts_of(split)) for split in written(story))),
        "sharing": SplitData(story.cascades.train, story.cascades.valid, story.cascades.test),
        "reading": SplitData(*(histories_of(split) for split in _by_day(story.reading, lambda session: session.day))),
        "searching": SplitData(*(queries_of(split) for split in _by_day(story.searching, lambda session: session.day))),
    }


def written(story: Town) -> list[tuple[Written, ...]]:
    """Return posts for training, validation and test."""
    return _by_day(story.posts, lambda post: story.day_of(post.time))


def _by_day(records: Iterable[Any], day_of: Callable[[Any], int]) -> list[tuple[Any, ...]]:
    """Return records of the days before, on and after the validation day."""
    groups: list[list[Any]] = [[], [], []]
    for record in records:
        # Before, on and after the validation day: sign -1, 0, 1.
        groups[1 + int(np.sign(day_of(record) - VALID_DAY))].append(record)
    return [tuple(group) for group in groups]


def _row(panel: Panel, predictor: Any, test: Any, truth: float) -> PanelRow:
    """Return the metrics of the model and of the best baseline."""
    result = evaluate(predictor, test)
    assert result.examples is not None
    row = result.rows[0]
    paired = next(pair for pair in result.paired_tests if pair.measure == panel.metric)
    low, high = row.interval[panel.metric]
    num_questions = len(result.examples.frame())
    return PanelRow(
        panel.name, panel.question, panel.task, predictor.model_name, panel.metric, num_questions,
        row.figures[panel.metric], (high - low) / 2, paired.baseline, paired.metrics[1], truth, result.verdict,
    )  # fmt: skip


def _of_stances(story: Town) -> float:
    """Return how often the label is the true feeling: wrong labels cannot be predicted."""
    return float(np.mean([post.label == post.feeling for post in written(story)[2] if post.label is not None]))


def _of_histories(
    histories: Iterable[tuple[History, int]], probabilities: Callable[[tuple[str, ...], int], Mapping[str, float]]
) -> float:
    """Return the mean reciprocal rank of each event after the first, by its true probability.

    Args:
        histories: each with its day.
        probabilities: returns those of the next event, from the events before it and the day.
    """
    reciprocals = [
        expected_reciprocal(probabilities(history.values[:at], day), history.values[at])
        for history, day in histories
        for at in range(1, len(history.values))
    ]
    return float(np.mean(reciprocals))


def _test_days(sessions: Iterable[Session]) -> Iterator[tuple[History, int]]:
    return ((session.history, session.day) for session in sessions if session.day > VALID_DAY)


def expected_reciprocal(probabilities: Mapping[str, float], target: str) -> float:
    """Return the reciprocal rank of a target by its probability, averaged over the orders of ties."""
    probability = probabilities.get(target, 0.0)
    if probability <= 0:
        return 0.0
    num_above = sum(other > probability for other in probabilities.values())
    # With the target itself.
    num_tied = sum(other == probability for other in probabilities.values())
    # Each order of the tied values is equally likely.
    return sum(1 / (num_above + rank) for rank in range(1, num_tied + 1)) / num_tied


CEILINGS: Mapping[str, Callable[[Town], float]] = {
    "posts": lambda story: 1.0,
    "stance": _of_stances,
    "sharing": lambda story: _of_histories(
        ((record, 0) for record in story.cascades.test.records()), lambda done, _: story.next_sharer(done)
    ),
    "reading": lambda story: _of_histories(_test_days(story.reading), story.next_read),
    "searching": lambda story: _of_histories(_test_days(story.searching), lambda done, _: story.next_search(done)),
}


def recovery(predictor: NextPredictor, test: Histories, cascades: CascadeWorld) -> dict[str, Compared]:
    """Compare the dependency weights of every event with the true edges and with the true source."""
    edges = sources = Compared()
    for index, explanation in enumerate(predictor.explain(list(test.records()))):
        values = explanation.values
        begin = int(test.offsets[index + 1]) - len(values)
        # Parents are positions in all test events; minus begin they count within the explained ones.
        parents = (cascades.true_parents[begin : begin + len(values)] - begin).tolist()
        edges += compare(explanation, cascades.edges)
        sources += compare(
            explanation, {(values[parent], value) for parent, value in zip(parents, values, strict=True) if parent >= 0}
        )
    return {"true edges": edges, "true sources": sources}
