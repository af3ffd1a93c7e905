"""What a commit holds beside the model, in the model's own folder: ``stream.json`` and ``stream.safetensors``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from torch import Tensor

from ensue.errors import SettingError
from ensue.lines import plural
from ensue.store.folder import damage, read_file
from ensue.store.tensors import TensorFile, read_tensors, tensor_bytes
from ensue.stream.blocks import Position
from ensue.stream.board import HourState
from ensue.stream.events import ReaderState
from ensue.stream.references import NightState, histories_of, history_tensors
from ensue.stream.state import StreamState
from ensue.stream.status import Counts
from ensue.tasks.next import save

STATE, TENSORS = "stream.json", "stream.safetensors"
VERSION = 1
CARD = "\n## Learned from a stream\n"


class Commit(TypedDict):
    """``stream.json``."""

    version: int
    source: str
    position: Position | None
    counts: dict[str, int]
    reader: ReaderState
    hours: list[HourState]
    told: int
    """The latest hour that was reported."""
    rejects: int
    """Bytes of the file of rejected lines."""
    nightly: NightState | None


def read_state(folder: Path) -> Commit | None:
    """``stream.json``, ``None`` for a folder that never learned from a stream.

    Raises:
        ModelFolderError: it is damaged.
    """
    if not (folder / STATE).exists():
        return None
    with damage(folder):
        commit: Commit = json.loads(read_file(folder, STATE))
        if commit["version"] > VERSION:
            raise ValueError(f"{STATE} is of a newer ensue")
        return commit


def files(stream: StreamState) -> dict[str, bytes | TensorFile]:
    """All the files of a commit, the model's included."""
    state: Commit = {
        "version": VERSION,
        "source": stream.source.name,
        "position": stream.position,
        "counts": asdict(stream.counts),
        "reader": stream.reader.state(),
        "hours": stream.board.state(),
        "told": stream.reported_hour,
        "rejects": stream.rejects.length,
        "nightly": stream.nightly.state() if stream.nightly else None,
    }
    parts: dict[str, dict[str, Tensor]] = {
        "sessions": stream.sessions.tensors(),
        "ended": history_tensors(stream.ended),
        **{one.name: one.tensors() for one in stream.popular},
    }
    if stream.nightly is not None:
        parts["nightly"] = stream.nightly.tensors()
    tensors = {f"{part}.{name}": tensor for part, columns in parts.items() for name, tensor in columns.items()}
    return {
        **save.contents(stream.predictor, _card(stream)),
        STATE: json.dumps(state).encode(),
        TENSORS: tensor_bytes(tensors),
    }


def restore(stream: StreamState, commit: Commit) -> None:
    """Put a new stream where a commit stood.

    Raises:
        SettingError: the folder learns from another source.
        ModelFolderError: the commit is damaged.
    """
    if commit["source"] != stream.source.name:
        raise SettingError(
            f"{stream.folder} learns from {commit['source']}, not from {stream.source.name}; name that one, or begin "
            "with this one by --anew"
        )
    tensors = read_tensors(stream.folder, TENSORS)
    with damage(stream.folder):
        stream.position, stream.reported_hour = commit["position"], commit["told"]
        stream.counts = Counts(**commit["counts"])
        stream.reader.restore(commit["reader"])
        stream.board.restore(commit["hours"])
        stream.sessions.restore(_part(tensors, "sessions"))
        stream.ended = histories_of(_part(tensors, "ended"), stream.predictor.vocabulary)
        for one in stream.popular:
            one.restore(_part(tensors, one.name))
        if stream.nightly is not None and commit["nightly"]:
            stream.nightly.restore(commit["nightly"], _part(tensors, "nightly"))


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    own = (key for key in tensors if key.startswith(f"{name}."))
    return {key.removeprefix(f"{name}."): tensors[key] for key in own}


def _card(stream: StreamState) -> str:
    """The card that stands, and how much was learned since."""
    there = (stream.folder / "CARD.md").exists()
    standing = read_file(stream.folder, "CARD.md").decode(errors="replace") if there else ""
    total = stream.board.total()
    figures = [
        f"- {name}: HR@20 {row['hr@20']:.4f}, MRR@20 {row['mrr@20']:.4f}" for name, row in total.figures().items()
    ]
    lines = [
        f"{plural(stream.counts.events, 'event')} of {stream.source.name}, each predicted before it was learned "
        f"({plural(total.targets, 'target')}, all known values, ties against the target):",
        *figures,
    ]
    return "\n".join([standing.split(CARD)[0].rstrip(), CARD, *lines, ""])
