"""What the states of all tasks have alike, as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.optim import Optimizer

from ensue.errors import SettingError
from ensue.schedule import Schedule
from ensue.store.card import Scores, read_scores
from ensue.store.folder import Settings, read_model
from ensue.tasks.metadata import Metadata

Learned = TypeVar("Learned")
_DATA = ("sequences", "events", "values", "texts", "labels", "sessions", "queries", "distinct", "articles", "posts")
"""Facts that say how much was learned from, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What stands in the folder that a predictor was loaded from, beside what it learned."""

    megabytes: float
    learned: str
    """The facts of its ``settings.json``, as text: other ones are of what was learned since."""
    scores: Scores | None
    """The latest of its card; ``None`` before the first evaluation."""


def require_trained(learned: Learned | None) -> Learned:
    """What was learned.

    Raises:
        SettingError: nothing was trained or loaded yet.
    """
    if learned is None:
        raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
    return learned


def module_of(model: object) -> nn.Module:
    """A model that keeps a task's protocol, as torch types it."""
    assert isinstance(model, nn.Module)
    return model


def evaluating(model: Learned) -> Learned:
    """The same model in evaluation mode; to set that walks through all of its parts, to ask does not."""
    module = module_of(model)
    if module.training:
        module.eval()
    return model


class State(Protocol):
    """What every state holds."""

    task: str
    model_name: str
    """A name in ``MODELS``."""
    schedule: Schedule | None
    """How the network is trained; ``None`` where nothing is."""
    seed: int
    """The same seed, data and machine give the same bytes on the CPU."""
    keeps_examples: bool
    """Whether a training keeps some held-out records word for word; only `ensue fit` does so unless told to."""


class Shown(State, Protocol):
    """A state that can say of itself what it is."""

    kept: Kept | None
    """Of the folder that it was loaded from."""

    @property
    def metadata(self) -> Metadata:
        """What was learned from."""
        ...


Found = TypeVar("Found", bound=Shown)


def load_state(folder: Path, make: Callable[..., Found], fill: Callable[[Found, Path, Settings], None]) -> Found:
    """The predictor of a folder, which remembers how large the folder is and how it scored.

    Args:
        folder: a model folder.
        make: as of :func:`~ensue.store.folder.read_model`.
        fill: as there.

    Raises:
        ModelFolderError: the folder is half, foreign, damaged, or of a newer ensue.
    """

    def fill_and_note(state: Found, path: Path, facts: Settings) -> None:
        fill(state, path, facts)
        size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        state.kept = Kept(size / 1e6, repr(state.metadata.to_dict()), read_scores(path))

    return read_model(folder, make, fill_and_note)


def shown(state: State, learned: object | None) -> str:
    """One line: the model, its seed, and whether anything was learned.

    Args:
        state: of a task.
        learned: what was trained or counted.
    """
    trained = "" if learned is not None else ", not trained yet"
    return f"{type(state).__name__}({state.model_name!r}, seed={state.seed}{trained})"


def shown_as_html(state: Shown, learned: object | None) -> str:
    """What a notebook shows: task, model, data, score with its interval, and size; nothing is fetched, nothing runs.

    Args:
        state: of a task.
        learned: what was trained or counted.
    """
    facts = state.metadata.to_dict()
    rows = [("task", state.task), ("model", f"{state.model_name}, seed {state.seed}")]
    if learned is None:
        rows.append(("data", "not fitted: call fit(data)"))
    else:
        counts = [(name, facts[name]) for name in _DATA if name in facts]
        sizes = [(name, len(many) if isinstance(many, list) else many) for name, many in counts]
        rows.append(("data", ", ".join(f"{many:,} {name}" for name, many in sizes)))
        rows += [("score", _score(state.kept, repr(facts))), ("size", _size(state.kept, learned))]
    cells = (f'<th>{name}</th><td style="text-align: left">{escape(text)}</td>' for name, text in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    caption = "Model, not fitted" if learned is None else "Fitted model"
    return f"<table><caption>{caption}</caption><tbody>{body}</tbody></table>"


def _score(kept: Kept | None, learned: str) -> str:
    if kept is None or kept.scores is None or kept.learned != learned:
        return "not evaluated: `ensue evaluate FOLDER TEST` writes metrics into the folder"
    figures = ", ".join(f"{name} {figure}" for name, figure in kept.scores["figures"].items())
    return f"{figures} (x 100, ± half of the 95 % interval); {kept.scores['verdict']}"


def _size(kept: Kept | None, learned: object) -> str:
    said = [f"{kept.megabytes:,.1f} MB in its folder"] if kept is not None else []
    if isinstance(learned, nn.Module):
        said.append(f"{sum(own.numel() for own in learned.state_dict().values()):,} numbers in the model")
    return ", ".join(said) or "not saved yet"


def summary_of(state: State, settings: Mapping[str, object], facts: Mapping[str, object]) -> dict[str, object]:
    """What was learned from what, and how: goes into ``settings.json`` and the card.

    Args:
        state: of a task.
        settings: all that can be set of the model, but for its schedule.
        facts: what was learned, as JSON has it.
    """
    return {
        "task": state.task,
        "model": state.model_name,
        "settings": settings,
        "schedule": asdict(state.schedule) if state.schedule else None,
        "seed": state.seed,
        "facts": facts,
    }


def clear_rows(module: nn.Module, optimizer: Optimizer | None, ids: npt.NDArray[np.integer], num_rows: int) -> int:
    """Set the rows of some ids to 0 in every table of a network with so many rows, and in its moments; count them."""
    count, places = 0, torch.from_numpy(ids.astype(np.int64))
    for parameter in module.parameters():
        if parameter.dim() and len(parameter) == num_rows:
            parameter.data[places.to(parameter.device)] = 0
            count += len(ids)
            for moment in (optimizer.state.get(parameter, {}) if optimizer else {}).values():
                if moment.dim():
                    moment[places.to(moment.device)] = 0
    return count


def without_prints(
    stored: torch.Tensor, mine: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
) -> tuple[torch.Tensor, bool]:
    """Return the stored fingerprints without those that only some records have.

    Args:
        stored: fingerprints of a model folder.
        mine: of the records to forget.
        others: of all other records.

    Returns:
        The fingerprints that stay, and whether ``mine`` and ``others`` include every stored one.
    """
    former = stored.numpy()
    complete = bool(np.isin(former, np.concatenate([mine, others])).all())
    return torch.from_numpy(np.setdiff1d(former, np.setdiff1d(mine, others))), complete


def keep_examples(metadata: Metadata, stays: Callable[[tuple[str, ...]], bool]) -> int:
    """Keep those of the examples for the page whose texts and truth, in one tuple, may stay; count the others."""
    examples = metadata.examples
    held = cast("list[dict[str, dict[str, list[str] | str]]]", examples["held_out"]) if examples else []
    kept = []
    for example in held:
        texts = next(example["record"][field] for field in ("values", "texts", "text") if field in example["record"])
        if stays((*([texts] if isinstance(texts, str) else texts), *example["truth"])):
            kept.append(example)
    if examples and len(kept) < len(held):
        metadata.examples = {**examples, "held_out": kept} if kept else None
    return len(held) - len(kept)


@dataclass(frozen=True)
class Forgotten:
    """What was removed from one model, and what remains.

    Attributes:
        removed: (file, what, how many) of each thing that held something of the person.
        remains: sentences about what cannot be removed, and what to do about it.
    """

    removed: list[tuple[str, str, int]] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)

    def add(self, file: str, what: str, count: int) -> None:
        """Note something that was removed; nothing is noted for 0."""
        if count:
            self.removed.append((file, what, count))
