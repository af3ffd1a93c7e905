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
    """Base of all errors raised for reasons a user can mend."""


class DataError(EnsueError):
    """The input data is not usable as it stands."""


class SettingError(EnsueError):
    """A setting or an option has no meaning here."""


class UnknownModelError(SettingError):
    """No model has this name; it may be one of somebody's own, whose file was not named."""


class ModelFolderError(EnsueError):
    """A model folder cannot be read or written."""


class FolderInUseError(ModelFolderError):
    """Another process learns into a model folder."""
