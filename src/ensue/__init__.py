"""ensue: who passes it on next, what is read next, from logs people already hold."""

from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.records import Answer, Choice, Explanation, Heed, History

__all__ = [
    "Answer",
    "Choice",
    "DataError",
    "EnsueError",
    "Explanation",
    "Heed",
    "History",
    "ModelFolderError",
    "SettingError",
]
