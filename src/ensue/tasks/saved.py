"""What the predictors of all tasks do alike: how they are shown, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from torch import Tensor, nn
from torch.optim import Adam

from ensue.arguments import require_data, require_path
from ensue.nn.device import Undrawn
from ensue.nn.validation import Bounded, require_shapes
from ensue.store.folder import write_folder
from ensue.store.tensors import TensorFile
from ensue.tasks.state import Shown, load_state, module_of, shown, shown_as_html
from ensue.training.optimizer import FILE, optimizer_tensors

Contents = Mapping[str, bytes | TensorFile]


NETWORK = "model.safetensors"
"""The file of a model folder that holds the weights of the network."""
Model = TypeVar("Model")


def network_files(network: nn.Module | None, optimizer: Adam | None) -> dict[str, TensorFile]:
    """Return the files of a model folder that hold the weights of a network and the state of its optimiser."""
    files = {NETWORK: TensorFile({} if network is None else network.state_dict())}
    if network is not None and optimizer is not None:
        files[FILE] = TensorFile(optimizer_tensors(network, optimizer))
    return files


def read_network(
    tensors: Mapping[str, Tensor], make: Callable[[], Model], untrained: Callable[[], object] | None
) -> Model:
    """Return a network with the weights of a folder.

    Args:
        tensors: its weights by name.
        make: a network on its device.
        untrained: the same where torch makes tensors, to compare shapes before any memory is taken; ``None`` of a
            class from outside, for a folder does not say what it needs to be made.

    Raises:
        ValueError: the weights are of another network.
    """
    if untrained is not None:
        with Undrawn(), Bounded(tensors):
            require_shapes(module_of(untrained()), tensors)
    network = make()
    module_of(network).load_state_dict(dict(tensors))
    return network


class _Learner(Shown, Protocol):
    model: object | None


class _Written(Shown, Protocol):
    @property
    def trained(self) -> object | None: ...


@dataclass(frozen=True)
class Folders:
    """Functions by which a task writes and reads its model folders; the first argument is a state of the task."""

    summary: Callable[[Any], dict[str, object]]
    """Return settings and metadata, as in ``settings.json``."""
    stored_data: Callable[[Mapping[str, Any]], list[str]]
    """Return what a folder stores of the training data, from a summary."""
    contents: Callable[[Any, str], Contents]
    """Return the files of a folder by name, given the text of its card; large ones as what makes them."""
    fill: Callable[[Any, Path, Mapping[str, Any]], None]
    """Give an untrained state what a folder holds."""


class SavedPredictor:
    """A predictor that is shown in one line or as HTML, and written as a folder of its ``contents``."""

    data_type: ClassVar[type]
    """Class of the data that the task learns and scores."""
    folders: ClassVar[Folders]

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

    def summary(self) -> dict[str, Any]:
        """Return settings and metadata, as in ``settings.json`` and the card."""
        return self.folders.summary(self)

    def stored_data(self) -> list[str]:
        """Return what the model folder stores of the training data, as lines of a Markdown list."""
        return self.folders.stored_data(self.summary())

    def contents(self, card: str = "") -> Contents:
        """Return the files that :meth:`save` writes, by name; large ones as what makes them."""
        return self.folders.contents(self, card)

    def files(self, card: str = "") -> dict[str, bytes]:
        """Return the files that :meth:`save` writes, by name."""
        contents = self.contents(card).items()
        return {name: b"".join(own) if isinstance(own, TensorFile) else own for name, own in contents}

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a folder written by :meth:`save`.

        Raises:
            ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
        """
        untrained: Callable[..., Self] = partial(cls, device=device)  # type: ignore[call-arg]  # states take it
        loaded: Self = load_state(Path(folder), untrained, cls.folders.fill)
        return loaded

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once; an older model there is replaced whole.

        Args:
            folder: where.
            card: the text of ``CARD.md``.

        Raises:
            ModelFolderError: not writable, full, or taken by something that is no model.
            SettingError: not trained.
        """
        write_folder(require_path(folder, "folder"), self.contents(card))
