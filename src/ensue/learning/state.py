"""State of a model of any task, and functions of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
)

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue.arguments import require_data, require_path
from ensue.data.histories import Mask
from ensue.errors import SettingError
from ensue.lazy import is_imported, lazy, require_torch, torch
from ensue.nn.device import find_device, memory_for
from ensue.nn.validation import Array, require_ids, require_offsets, require_table
from ensue.schedule import Schedule
from ensue.settings import require_seed
from ensue.store.card import Scores, card_text, read_scores
from ensue.store.folder import Settings, described, read_model, write_folder
from ensue.store.pack import NETWORK, OPTIMIZER, TensorFile, files_of, pack, read_packed, unpack
from ensue.text.tokens import Tokens
from ensue.training.report import Report
from ensue.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Adam

    from ensue.learning.onnx_trace import Traceable
    from ensue.nn import loading
    from ensue.training import optimizer as optimizers
    from ensue.training.optimizer import RowAdam
else:
    loading = lazy("ensue.nn.loading")
    optimizers = lazy("ensue.training.optimizer")

Count = Annotated[int, Field(ge=0, le=2**62)]
"""A non-negative count that fits 64 bits."""


@dataclass(frozen=True, kw_only=True)
class ExportFacts:
    """Facts of an exported network.

    Attributes:
        precision: of its weights, ``float32`` or ``int8``.
        reach: receptive field of a model of task ``next``; ``None`` for all events.
    """

    precision: Annotated[str, Field(pattern="^(float32|int8)$")]
    reach: Count | None = None


class Exports(NamedTuple):
    """Parts of an exported folder that replace the weights of the network.

    Attributes:
        graphs: the graphs by the names of their files.
        arrays: weights of an ensemble around the network, by name.
        reach: see :class:`ExportFacts`.
        dropped: files of the model folder that the export does without.
        vocabulary: what each id stands for, special ids included; other programs read it.
    """

    graphs: Mapping[str, Traceable]
    arrays: Mapping[str, Array] = {}
    reach: int | None = None
    dropped: tuple[str, ...] = ()
    vocabulary: Sequence[str] = ()


@dataclass(kw_only=True)
class Metadata:
    """Fields that the metadata of every task have; a field at its default is not written."""

    held_out: str = ""
    """Part of the data that was held out."""
    validation_mrr: dict[str, float] | None = None
    """MRR of each model that was tried, on held-out data (of ``suggest`` MRR@10)."""
    epochs: Count = 0
    """Epochs behind the weights."""
    ended: str = ""
    """End of the training, where it was cut while it still got better, or where the network was left out."""
    updates: Count = 0
    """Number of updates since the fit."""
    version: Annotated[int, Field(ge=1)] | None = None
    """Version of the folder; ``None`` for the first."""
    answered: list[dict[str, Any]] | None = None
    """Digests and answers of the latest updates over HTTP, so that none is learned twice."""
    examples: dict[str, object] | None = None
    """Some held-out records (:mod:`ensue.learning.life`); ``None`` where none are kept."""
    exported: ExportFacts | None = None
    """How the network was exported; ``None`` of a folder whose network is in torch."""
    reading: dict[str, object] | None = None
    """Schema of the training file (:class:`ensue.data.schema.DataSchema`); ``None`` without one."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as ``settings.json`` holds them under "facts", those of the task first."""
        facts, _ = pack(self)
        # False sorts before True: fields that only the task has come first.
        return {name: facts[name] for name in sorted(facts, key=Metadata.__annotations__.__contains__)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the metadata that :meth:`to_dict` wrote.

        Raises:
            ValueError: a field is missing, unknown, or of another type.
        """
        return unpack(cls, facts, {}, "facts")


Fitted = TypeVar("Fitted")
NetworkT = TypeVar("NetworkT")
_COUNTS = ("sequences", "events", "values", "texts", "labels", "sessions", "queries", "distinct", "articles", "posts")
"""Metadata that say how much data a model was trained on, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Size and scores of the folder that a model was loaded from."""

    megabytes: float
    metadata: str
    """Metadata of its ``settings.json`` as text; they change with an update."""
    scores: Scores | None
    """The latest of its card; ``None`` before the first evaluation."""


def require_trained(learned: Fitted | None) -> Fitted:
    """Return the trained model.

    Raises:
        SettingError: nothing was trained or loaded yet.
    """
    if learned is None:
        raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
    return learned


def is_network(model: object) -> TypeGuard[nn.Module]:
    """Return whether a model is a module of torch; where nobody has imported torch it cannot be."""
    return is_imported("torch") and isinstance(model, torch.nn.Module)


def module_of(model: object) -> nn.Module:
    """Return a network of a task under torch's type."""
    assert is_network(model)
    return model


class LateOptimizer:
    """An attribute of predictors: their optimizer, or ``None`` where nothing is trained.

    It may be set to a function that makes the optimizer, which is called when somebody first asks for it: to make one
    imports half of torch, and prediction needs none.
    """

    def __get__(self, predictor: object, kind: type) -> Adam | None:
        optimizer: Adam | Callable[[], Adam] | None = predictor.__dict__.get("optimizer")
        if callable(optimizer):
            # Replace the function by what it returns, so that later reads get the same optimizer.
            optimizer = predictor.__dict__["optimizer"] = optimizer()
        return optimizer

    def __set__(self, predictor: object, value: Adam | Callable[[], Adam] | None) -> None:
        predictor.__dict__["optimizer"] = value


def evaluating(model: Fitted) -> Fitted:
    """Return a model after setting it to evaluation mode, unless it is in that mode already."""
    if is_network(model) and model.training:
        model.eval()
    return model


Contents = Mapping[str, bytes | TensorFile]


class State(Generic[NetworkT]):
    """A model of a task: its settings, its network with the optimizer, and what it was trained on.

    Args:
        model: a name in ``MODELS`` of the task, or ``best``.
        settings: settings of the model, of its schedule and of the task to change, by name; texts are read as numbers.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: device of the network. [default: a GPU if there is one]

    Raises:
        SettingError: an unknown model or setting.
    """

    task: ClassVar[str]
    data_type: ClassVar[type]
    """Class of the data that the task trains on and scores."""
    fitted: ClassVar[type]
    """Dataclass of all fitted values without the weights of the network; its checks refuse values that do not fit."""
    stored_data: Callable[[], list[str]]
    """Return what the model folder stores of the training data, as lines of a Markdown list."""
    fit: Callable[..., Iterator[Report]]
    """Train on data from scratch, yielding a report per step."""
    update: Callable[..., Report]
    """Train on new data in one pass; new items and words get rows."""
    predict: Callable[..., Sequence[Any]]
    """Return the top answers for each record."""
    explain: Callable[..., Sequence[Any]]
    """Return the attributions behind the answer to each record."""
    _collect: Callable[[], object]
    """Return the fitted values, of the class ``fitted``."""
    _restore: Callable[[Any, Path], None]
    """Take the fitted values, and the rest of a folder, untrained; ``ValueError`` if they are of another model."""
    _shown: Callable[[], dict[str, object]]
    """Return fitted values that are written to ``settings.json`` for people, and not read again."""
    configure: Callable[[str, dict[str, object]], None]
    """Take the settings of a model, by its name, and set everything else to its state before training."""
    make_network: Callable[..., NetworkT]
    """Return a network with initial weights on the default device of torch; arguments are sizes that the settings
    leave open."""
    optimizer = LateOptimizer()
    """Optimizer of the network; ``None`` where nothing is trained."""
    stop_time: float | None = None
    """Value of ``time.monotonic()`` at which ``fit`` is to be done (``ensue fit --minutes``); ``None`` for no limit."""
    keeps_examples = False
    """True if training stores some held-out records verbatim for the page, the default of ``ensue fit``."""
    model_name: str
    """A name in ``MODELS``; after a training of ``best``, the selected one."""
    settings: Any
    """Settings of the model, a frozen dataclass, or ``None``."""
    shared: Any
    """Settings that every model of the task has, a frozen dataclass."""
    schedule: Schedule | None
    """Training settings of the network; ``None`` of a model without one."""
    metadata: Metadata
    """Training data and validation results, as ``settings.json`` and the card show them."""

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        self._begin(model, dict(settings or {}), seed, device)
        if model != "best":
            self._require_torch()

    @classmethod
    def _unfitted(cls, model: str, *, settings: dict[str, object], seed: int, device: str | None) -> Self:
        """Return a state for a folder; an exported one needs no torch, which ``__init__`` asks for."""
        state = cls.__new__(cls)
        state._begin(model, settings, seed, device)
        return state

    def _require_torch(self) -> None:
        """Refuse a network where torch is not installed."""
        if self.schedule is not None:
            require_torch(f"model {self.model_name}")

    def _begin(self, model: str, settings: dict[str, object], seed: int, device: str | None) -> None:
        """Take the arguments; nothing is trained yet."""
        self.seed = require_seed(seed)
        self._device_name = device
        # ``find_device`` imports torch, which baselines on the CPU do without.
        if device not in (None, "cpu"):
            self.device = find_device(device)  # refused here, not when the network is made
        self.model: object | None = None
        """The network or baseline; ``None`` before training."""
        self.optimizer = None
        self.seconds_an_epoch: float | None = None
        """CPU seconds per epoch of the latest training, validation included."""
        self.kept: Kept | None = None
        """Size and scores of the folder that the model was loaded from."""
        self.configure(model, settings)

    @cached_property
    def device(self) -> torch.device:
        """The device of the network."""
        return find_device(self._device_name)

    @property
    def network(self) -> NetworkT:
        """The trained network.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        return cast("NetworkT", require_trained(self.model))

    @property
    def module(self) -> nn.Module:
        """The trained network, as torch types it."""
        return module_of(self.network)

    @property
    def all_settings(self) -> dict[str, Any]:
        """The settings of the model and of the task, by name."""
        return {**(asdict(self.settings) if self.settings else {}), **asdict(self.shared)}

    def read_network(self, folder: Path, tensors: Mapping[str, Tensor], *sizes: int, bounded: bool = True) -> None:
        """Take the network of a folder, and its optimizer.

        Args:
            folder: a model folder.
            tensors: the weights by name; they are not copied.
            sizes: arguments of ``make_network``.
            bounded: whether shapes are compared before any memory is taken. Not for a class from outside: a folder does
                not say what it needs to be made.

        Raises:
            ValueError: the weights are of another network.
        """
        # The weights come from the file, so nothing is drawn.
        with loading.Undrawn():
            if bounded:
                with loading.Bounded(tensors):
                    # Make a network under a limit of sizes first: the sizes of a damaged folder may exceed any memory.
                    loading.require_shapes(module_of(self.make_network(*sizes)), tensors)
            self.model = network = self.new_network(*sizes)
        loading.assign_tensors(module_of(network), tensors)
        if self.schedule is not None:
            module_of(network).to(self.device)
            # A function, called at the first update: prediction does not read the moments.
            self.optimizer = optimizers.saved_optimizer(folder, self.module, self.new_optimizer)

    def new_optimizer(self) -> RowAdam:
        """Return an optimizer of the network that has taken no step."""
        assert self.schedule is not None
        return optimizers.make_optimizer(self.module, self.schedule)

    def new_network(self, *sizes: int) -> NetworkT:
        """Return an untrained network on the device of the state."""
        with memory_for(f"{self.model_name} with these settings"):
            network = self.make_network(*sizes)
            module_of(network).to(self.device)
        return network

    def vectors_of_items(self) -> tuple[Sequence[str], npt.NDArray[np.float32]]:
        """Return the ids of the items or articles, and (items, dim) a vector of each.

        Raises:
            SettingError: the model has none.
        """
        raise SettingError(f"models of task {self.task} have no items; give the data whose vectors are meant")

    def vectors_of(self, records: Sequence[Any]) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the vector of each record, (records, dim), and which records have one.

        Raises:
            SettingError: the model has no network that encodes records.
        """
        raise NotImplementedError

    def without_vectors(self, noun: str, example: str) -> SettingError:
        """Return the error of a model that has no vectors."""
        return SettingError(f"{self.model_name} has no vectors of {noun}; fit a network, such as --model {example}")

    @classmethod
    def require_data(cls, data: object, valid: object = None) -> None:
        """Refuse data of other tasks, paths and frames.

        Args:
            data: training or test data.
            valid: validation data.

        Raises:
            DataError: the data is of another type than ``data_type``.
        """
        require_data(data, cls.data_type)
        if valid is not None:
            require_data(valid, cls.data_type)

    def require_trainable(self) -> None:
        """Refuse to change an exported model.

        Raises:
            SettingError: the model is an export.
        """
        if self.metadata.exported is not None:
            raise SettingError(
                "an exported model answers, but cannot be changed or saved; change the folder that it was exported "
                "from, and export it again"
            )

    @property
    def trained(self) -> object | None:
        """The network or the counts; ``None`` before training."""
        return self.model

    def __repr__(self) -> str:
        """Return the model, its seed, and whether it is trained."""
        trained = "" if self.trained is not None else ", not trained yet"
        return f"{type(self).__name__}({self.model_name!r}, seed={self.seed}{trained})"

    def _repr_html_(self) -> str:
        """Return task, model, data, metrics with their intervals, and size for a notebook."""
        metadata = self.metadata.to_dict()
        rows = [("task", self.task), ("model", f"{self.model_name}, seed {self.seed}")]
        if self.trained is None:
            rows.append(("data", "not fitted: call fit(data)"))
        else:
            counts = [(name, metadata[name]) for name in _COUNTS if name in metadata]
            sizes = [(name, len(value) if isinstance(value, list) else value) for name, value in counts]
            rows.append(("data", ", ".join(f"{size:,} {name}" for name, size in sizes)))
            rows += [("score", self._scores_of_folder(repr(metadata))), ("size", self._size())]
        cells = (f'<th>{name}</th><td style="text-align: left">{escape(text)}</td>' for name, text in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        caption = "Model, not fitted" if self.trained is None else "Fitted model"
        return f"<table><caption>{caption}</caption><tbody>{body}</tbody></table>"

    def _scores_of_folder(self, metadata: str) -> str:
        # Metrics in the card are those of the folder; an update since then makes them stale.
        if self.kept is None or self.kept.scores is None or self.kept.metadata != metadata:
            return "not evaluated: `ensue evaluate FOLDER TEST` writes metrics into the folder"
        metrics = ", ".join(f"{name} {value}" for name, value in self.kept.scores["figures"].items())
        return f"{metrics} (x 100, ± half of the 95 % interval); {self.kept.scores['verdict']}"

    def _size(self) -> str:
        sizes = [f"{self.kept.megabytes:,.1f} MB in its folder"] if self.kept is not None else []
        if is_network(self.trained):
            num_values = sum(tensor.numel() for tensor in self.trained.state_dict().values())
            sizes.append(f"{num_values:,} numbers in the model")
        return ", ".join(sizes) or "not saved yet"

    def summary(self) -> dict[str, Any]:
        """Return settings and metadata, as in ``settings.json`` and the card."""
        return {
            "task": self.task,
            "model": self.model_name,
            "settings": self.all_settings,
            "schedule": asdict(self.schedule) if self.schedule else None,
            "seed": self.seed,
            "facts": {**self.metadata.to_dict(), **self._shown()},
        }

    def card(self, scores: str = "") -> str:
        """Return the text of ``CARD.md``.

        Args:
            scores: :meth:`ensue.evaluation.result.Result.card_text`; empty before the first evaluation.
        """
        return card_text(self.summary(), self.stored_data(), scores)

    @property
    def is_prepared(self) -> bool:
        """Whether nothing slow must be built before the first answer, which the folder may lack."""
        return True

    def prepare(self) -> bytes:
        """Build what is built once, and return it for :meth:`use_prepared` of the same model in another process."""
        return b""

    def use_prepared(self, prepared: bytes) -> None:
        """Use the result of :meth:`prepare`."""

    def _own_files(self) -> Contents:
        """Return files of the task alone, by name."""
        return {}

    def contents(self, card: str = "") -> Contents:
        """Return the files that :meth:`save` writes, by name; large ones as what makes them.

        Raises:
            SettingError: not trained.
        """
        require_trained(self.trained)
        self.require_trainable()
        contents: dict[str, bytes | TensorFile] = {
            **described(self.summary(), card),
            **files_of(self._collect()),
            **self._own_files(),
        }
        if is_network(self.model):
            # Written tensor by tensor, so that no second copy of the model is in memory.
            contents[NETWORK] = TensorFile(self.model.state_dict())
            if self.optimizer is not None:
                contents[OPTIMIZER] = TensorFile(optimizers.optimizer_tensors(self.model, self.optimizer))
        return contents

    def files(self, card: str = "") -> dict[str, bytes]:
        """Return the files that :meth:`save` writes, by name."""
        contents = self.contents(card).items()
        return {name: b"".join(content) if isinstance(content, TensorFile) else content for name, content in contents}

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a folder written by :meth:`save`.

        Raises:
            ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
        """

        def fill(state: State[NetworkT], path: Path, metadata: Settings) -> None:
            shown_names = state._shown().keys()
            # Values for people are derived from the tables and are not part of the metadata.
            stored = {name: value for name, value in metadata.items() if name not in shown_names}
            state.metadata = type(state.metadata).from_dict(stored)
            if state.metadata.exported is None:
                state._require_torch()
            state._restore(read_packed(cls.fitted, path), path)
            size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
            state.kept = Kept(size / 1e6, repr(state.metadata.to_dict()), read_scores(path))

        make: Callable[..., Self] = partial(cls._unfitted, device=device)
        return read_model(Path(folder), make, fill)

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


AnyState: TypeAlias = State[Any]


def require_tokens(name: str, tokens: Tokens, num_ids: int, first_id: int = UNKNOWN) -> None:
    """Check texts as ids that a file holds.

    Args:
        name: what the message calls them.
        tokens: the texts.
        num_ids: ids of the vocabulary, padding and unknown included.
        first_id: the smallest that passes.

    Raises:
        ValueError: an id or an offset is out of place, or a text without a sentence.
    """
    require_table(f"{name}.ids", tokens.ids, np.int32, [None])
    require_ids(f"{name}.ids", tokens.ids, num_ids, first_id)
    # Two levels: sentences cut the ids, and texts cut the sentences.
    require_offsets(f"{name}.sentences", tokens.sentences, len(tokens.ids))
    require_offsets(f"{name}.texts", tokens.texts, len(tokens.sentences) - 1)
    # The offsets count sentences, so two equal neighbours are a text without one.
    if (np.diff(tokens.texts) < 1).any():
        raise ValueError(f"{name} holds a text without a sentence")
