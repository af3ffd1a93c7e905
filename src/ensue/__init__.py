"""ensue: who passes it on next, what is read next, which label fits, from what people already hold.

    >>> from ensue import History, make, read
    >>> histories, understood = read("cascades.csv")
    >>> predictor = make("next", "hidan")
    >>> for report in predictor.fit(histories):
    ...     pass
    >>> predictor.predict([History(("ann", "bob"))], k=3)

    >>> from ensue import Text, read_texts
    >>> texts, understood = read_texts("reviews.csv")
    >>> predictor = make("classify", settings={"hidden": 64})
    >>> for report in predictor.fit(texts):
    ...     pass
    >>> predictor.explain([Text(("a fine film",))])

The names below are the public ones; each is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ensue import forks  # noqa: F401 - what it does when this process is forked
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
        Passage,
        QueryExplanation,
        TextAnswer,
        TextExplanation,
    )
    from ensue.api import NextEvent, PostLinker, QuerySuggester, TextClassifier
    from ensue.data.histories import Histories
    from ensue.data.posts import Articles, Corpus, Posts, read_corpus
    from ensue.data.queries import Queries, read_queries
    from ensue.data.sequences import read
    from ensue.data.texts import Texts, read_texts
    from ensue.evaluation import compare, evaluate
    from ensue.model_selection import split
    from ensue.predictions import Predictions
    from ensue.predictor import Predictor, load, make
    from ensue.records import Article, History, Post, Text
    from ensue.tasks.own import add_model

__all__ = [
    "Answer",
    "Article",
    "Articles",
    "Attribution",
    "Choice",
    "Corpus",
    "DataError",
    "Deletion",
    "EnsueError",
    "Explanation",
    "Histories",
    "History",
    "Link",
    "LinkAnswer",
    "ModelFolderError",
    "NextEvent",
    "Passage",
    "Post",
    "PostLinker",
    "Posts",
    "Predictions",
    "Predictor",
    "Queries",
    "QueryExplanation",
    "QuerySuggester",
    "SettingError",
    "Text",
    "TextAnswer",
    "TextClassifier",
    "TextExplanation",
    "Texts",
    "__version__",
    "add_model",
    "compare",
    "evaluate",
    "load",
    "make",
    "read",
    "read_corpus",
    "read_queries",
    "read_texts",
    "split",
]

_HOMES = {
    "answers": "Answer Choice Deletion Explanation Attribution Link LinkAnswer Passage "
    "QueryExplanation TextAnswer TextExplanation",
    "api": "NextEvent PostLinker QuerySuggester TextClassifier",
    "data.histories": "Histories",
    "data.posts": "Articles Corpus Posts read_corpus",
    "data.queries": "Queries read_queries",
    "data.sequences": "read",
    "data.texts": "Texts read_texts",
    "evaluation": "compare evaluate",
    "model_selection": "split",
    "predictions": "Predictions",
    "predictor": "Predictor load make",
    "records": "Article History Post Text",
    "tasks.own": "add_model",
}
_HOME = {name: f"ensue.{module}" for module, names in _HOMES.items() for name in names.split()}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # whoever checks types has the imports above

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'ensue' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(_HOME[name]), name)
        return found
