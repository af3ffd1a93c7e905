"""ensue: who passes it on next, what is read next, from logs people already hold.

    >>> from ensue import History, make, read
    >>> histories, understood = read("cascades.csv")
    >>> predictor = make("next", "hidan")
    >>> for report in predictor.fit(histories):
    ...     pass
    >>> predictor.predict([History(("ann", "bob"))], k=3)

The names below are the public ones; whatever needs torch is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ensue.data.histories import Histories
from ensue.data.tables import read
from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.records import Answer, Choice, Explanation, Heed, History
from ensue.version import __version__

if TYPE_CHECKING:
    from ensue.evaluation import compare, evaluate
    from ensue.predictor import load, make

__all__ = [
    "Answer",
    "Choice",
    "DataError",
    "EnsueError",
    "Explanation",
    "Heed",
    "Histories",
    "History",
    "ModelFolderError",
    "SettingError",
    "__version__",
    "compare",
    "evaluate",
    "load",
    "make",
    "read",
]

_LATER = {"compare": "evaluation", "evaluate": "evaluation", "load": "predictor", "make": "predictor"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ensue.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ensue' has no attribute {name!r}")
