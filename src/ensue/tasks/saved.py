"""What the predictors of all tasks do alike: how they are shown, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Protocol

from ensue.arguments import require_data, require_path
from ensue.store.folder import write_folder
from ensue.store.tensors import TensorFile
from ensue.tasks.state import Shown, shown, shown_as_html

Contents = Mapping[str, bytes | TensorFile]


class _Learner(Shown, Protocol):
    model: object | None


class _Written(Shown, Protocol):
    @property
    def trained(self) -> object | None: ...

    def contents(self, card: str = "") -> Contents: ...


class SavedPredictor:
    """A predictor that is shown in one line or as HTML, and written as a folder of its ``contents``."""

    data_type: ClassVar[type]
    """Class of the data that the task learns and scores."""

    @classmethod
    def require_data(cls, data: object, valid: object = None) -> None:
        """Refuse data of other tasks, paths and frames.

        Args:
            data: what is learned or scored.
            valid: what is held out, if anything is.

        Raises:
            DataError: the data is of another type than ``data_type``.
        """
        for given in (data,) if valid is None else (data, valid):
            require_data(given, cls.data_type)

    @property
    def trained(self: _Learner) -> object | None:
        """What was trained or counted; ``None`` before."""
        return self.model

    def __repr__(self: _Written) -> str:
        """The model, its seed, and whether it is trained."""
        return shown(self, self.trained)

    def _repr_html_(self: _Written) -> str:
        """What a notebook shows: task, model, data, score with its interval, and size."""
        return shown_as_html(self, self.trained)

    def files(self: _Written, card: str = "") -> dict[str, bytes]:
        """What :meth:`save` writes, by file name."""
        contents = self.contents(card).items()
        return {name: b"".join(own) if isinstance(own, TensorFile) else own for name, own in contents}

    def save(self: _Written, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once; an older model there is replaced whole.

        Args:
            folder: where.
            card: the text of ``CARD.md``.

        Raises:
            ModelFolderError: not writable, full, or taken by something that is no model.
            SettingError: not trained.
        """
        write_folder(require_path(folder, "folder"), self.contents(card))
