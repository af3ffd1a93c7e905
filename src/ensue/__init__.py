"""Predict what comes next, classify texts, suggest queries and link posts, with evidence and honest error bars.

    >>> import ensue
    >>> model = ensue.NextEvent("markov").fit("clicks.csv")
    >>> model.predict([["crack-explained", "bridge-history"]], k=1).values
    [['bridge-closes']]
    >>> model.save("models/next")
    >>> model = ensue.load("models/next")

    >>> texts, labels = ["a good film", "a bad film"] * 10, ["yes", "no"] * 10
    >>> ensue.TextClassifier("tfidf").fit(texts, labels).predict(["so good"]).tolist()
    ['yes']

Each of the names below is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ensue import forks  # noqa: F401 - handlers for a fork of this process
from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.version import __version__

if TYPE_CHECKING:
    from ensue.answers import (
        Answer,
        Attribution,
        Choice,
        Deletion,
        Explanation,
        Link,
        LinkAnswer,
        LinkExplanation,
        Passage,
        QueryExplanation,
        SimilarSession,
        TextAnswer,
        TextExplanation,
    )
    from ensue.api import NextEvent, PostLinker, QuerySuggester, TextClassifier, load
    from ensue.model_selection import compare, evaluate, make, read, split, tune
    from ensue.predictions import Predictions
    from ensue.records import Article, History, Post, Text
    from ensue.registry import add_model
    from ensue.tuning import Tuning

__all__ = [
    "Answer",
    "Article",
    "Attribution",
    "Choice",
    "DataError",
    "Deletion",
    "EnsueError",
    "Explanation",
    "History",
    "Link",
    "LinkAnswer",
    "LinkExplanation",
    "ModelFolderError",
    "NextEvent",
    "Passage",
    "Post",
    "PostLinker",
    "Predictions",
    "QueryExplanation",
    "QuerySuggester",
    "SettingError",
    "SimilarSession",
    "Text",
    "TextAnswer",
    "TextClassifier",
    "TextExplanation",
    "Tuning",
    "__version__",
    "add_model",
    "compare",
    "evaluate",
    "load",
    "make",
    "read",
    "split",
    "tune",
]

_MODULES = {
    "answers": "Answer Attribution Choice Deletion Explanation Link LinkAnswer LinkExplanation Passage "
    "QueryExplanation SimilarSession TextAnswer TextExplanation",
    "api": "NextEvent PostLinker QuerySuggester TextClassifier load",
    "model_selection": "compare evaluate make read split tune",
    "predictions": "Predictions",
    "records": "Article History Post Text",
    "registry": "add_model",
    "tuning": "Tuning",
}
_MODULE_OF = {name: f"ensue.{module}" for module, names in _MODULES.items() for name in names.split()}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # type checkers read the imports above

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'ensue' has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
        return value
