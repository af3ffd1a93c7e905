"""The errors that users can cause and mend.

::

    EnsueError
    ├── DataError           a file, a line or a record is invalid
    ├── SettingError        a setting, an option or a name is invalid
    │   ├── UnknownModelError   no model has this name
    │   └── MissingLibraryError an optional library is not installed
    └── ModelFolderError    a model folder is incomplete, of another program or version, or cannot be written

A message is one line: where (file, line, field), what is wrong, what to do. The command line prints it and exits with
code 2; the service answers 422 with the same text.
"""


class EnsueError(Exception):
    """Base of all errors raised for reasons a user can mend.

    Example:
        >>> from ensue import EnsueError, NextEvent
        >>> try:
        ...     NextEvent("markov").fit("nowhere.csv")
        ... except EnsueError as error:
        ...     print(error)
        nowhere.csv: no such file; check the name
    """

    def __str__(self) -> str:
        """Return the message on one line: control characters, say of a column's name, are written as escapes."""
        text = super().__str__()
        if text.isprintable():
            return text
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class DataError(EnsueError):
    """The input data is invalid.

    Example:
        >>> from ensue import DataError, History
        >>> try:
        ...     History(("ann", "bob"), (5.0, 1.0))
        ... except DataError as error:
        ...     print(error)
        history '': times[1] = 1.0 comes after 5.0; times must not decrease
    """


class SettingError(EnsueError):
    """A setting, an option or a name is invalid.

    Example:
        >>> from ensue import NextEvent, SettingError
        >>> try:
        ...     NextEvent("hidan", dim=0).fit([["a", "b"]])
        ... except SettingError as error:
        ...     print(error)
        dim is 0; it must be at least 1
    """


class UnknownModelError(SettingError):
    """No model has this name; it may be a custom model whose file was not loaded."""


class MissingLibraryError(SettingError):
    """A model needs a library that is not installed, such as PyTorch."""


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
    """Another process trains into the model folder."""
