"""Every error a user can cause, and nothing else.

::

    EnsueError
    ├── DataError           a file, a line or a record is not what it should be
    ├── SettingError        a setting, an option or a name is wrong
    │   └── UnknownModelError   no model has this name
    └── ModelFolderError    a model folder is half, foreign, newer or cannot be written

A message is one line: where (file, line, field), what is wrong, what to do. The command line prints it and exits with
code 2; the service answers 422 with the same text.
"""


class EnsueError(Exception):
    """Base of all errors raised for reasons a user can mend.

    Example:
        >>> from ensue import EnsueError, read
        >>> try:
        ...     read("nowhere.csv")
        ... except EnsueError as error:
        ...     print(error)
        nowhere.csv: no such file; check the name
    """


class DataError(EnsueError):
    """The input data is not usable as it stands.

    Example:
        >>> from ensue import DataError, History
        >>> try:
        ...     History(("ann", "bob"), (5.0, 1.0))
        ... except DataError as error:
        ...     print(error)
        history '': times[1] = 1.0 comes after 5.0; times must not decrease
    """


class SettingError(EnsueError):
    """A setting or an option has no meaning here.

    Example:
        >>> from ensue import SettingError, make
        >>> try:
        ...     make("next", "hidan", settings={"dim": 0})
        ... except SettingError as error:
        ...     print(error)
        dim is 0; it must be at least 1
    """


class UnknownModelError(SettingError):
    """No model has this name; it may be one of somebody's own, whose file was not named."""


class ModelFolderError(EnsueError):
    """A model folder cannot be read or written.

    Example:
        >>> from ensue import ModelFolderError, load
        >>> try:
        ...     load("models/nowhere")
        ... except ModelFolderError as error:
        ...     print(error)
        models/nowhere: no such model folder; make one with `ensue fit TASK DATA -o models/nowhere`
    """


class FolderInUseError(ModelFolderError):
    """Another process learns into a model folder."""
