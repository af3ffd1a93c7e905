"""What a commit holds beside the model, in the model's own folder: ``stream.json`` and ``stream.safetensors``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories, Ids, Times
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.store.folder import damage, read_file
from ensue.store.tensors import TensorFile, read_tensors, tensor_bytes
from ensue.stream.blocks import Position
from ensue.stream.board import Board, HourState
from ensue.stream.events import ReaderState
from ensue.stream.journal import Entry, apply_changes
from ensue.stream.partitions import PartitionSessions
from ensue.stream.references import NightState, histories_of, history_tensors
from ensue.stream.state import StreamState
from ensue.stream.status import Counts
from ensue.tasks.next import save, update
from ensue.tasks.next.metadata import Metadata

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


class Seen(NamedTuple):
    """What a step brought, as recent popularity and the model are told of it."""

    ids: Ids
    times: Times
    clock: float


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


def small_parts(stream: StreamState) -> tuple[Commit, dict[str, Tensor]]:
    """What every commit holds beside the model: what is said, and open sessions and those that wait to be counted."""
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
    return state, _named({"sessions": stream.sessions.tensors(), "ended": history_tensors(stream.ended)})


def files(stream: StreamState) -> dict[str, bytes | TensorFile]:
    """All the files of a commit that is a whole folder, the model's included."""
    state, tensors = small_parts(stream)
    parts = {one.name: one.tensors() for one in stream.popular}
    if stream.nightly is not None:
        parts["nightly"] = stream.nightly.tensors()
    tensors |= _named(parts)
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
        _restore_small(stream, commit, tensors)
        for one in stream.popular:
            one.restore(_part(tensors, one.name))
        if stream.nightly is not None and commit["nightly"]:
            stream.nightly.restore(commit["nightly"], _part(tensors, "nightly"))


def entry_of(
    stream: StreamState,
    values: list[str],
    changes: Mapping[str, Tensor],
    seen: Sequence[Seen],
    counted: Sequence[Histories],
) -> Entry:
    """A commit of the journal.

    Args:
        stream: as it stands.
        values: new since the commit before.
        changes: of the weights since then.
        seen: what each step since then brought.
        counted: sessions that were counted since then.
    """
    state, tensors = small_parts(stream)
    columns = {
        "seen.lengths": torch.tensor([len(one.ids) for one in seen], dtype=torch.int64),
        "seen.clocks": torch.tensor([one.clock for one in seen], dtype=torch.float64),
        "seen.ids": torch.from_numpy(np.concatenate([one.ids for one in seen])),
        "seen.times": torch.from_numpy(np.concatenate([one.times for one in seen])),
    }
    columns |= _named({f"counted {number}": history_tensors(part) for number, part in enumerate(counted)})
    told = {**state, "values": values, "counted": len(counted), "metadata": stream.predictor.metadata.to_dict()}
    return Entry(told, {**tensors, **columns, **changes})


def replay(stream: StreamState, entry: Entry) -> None:
    """Put a stream that stands at one commit where the next of its journal stood.

    Raises:
        ModelFolderError: the commit is damaged.
    """
    predictor, tensors = stream.predictor, entry.tensors
    with damage(stream.folder):
        predictor.add_values(entry.state["values"])
        apply_changes(predictor, tensors)
        for number in range(entry.state["counted"]):
            part = histories_of(_part(tensors, f"counted {number}"), predictor.vocabulary)
            predictor.reservoir.add(part)
            update.count(predictor, part)
        predictor.metadata = Metadata.from_dict(entry.state["metadata"])
        begin = 0
        for length, clock in zip(tensors["seen.lengths"].tolist(), tensors["seen.clocks"].tolist(), strict=True):
            step = slice(begin, begin + length)
            ids, times = tensors["seen.ids"][step].numpy(), tensors["seen.times"][step].numpy()
            for one in stream.popular:
                one.see(ids, times, clock)
            predictor.observe(ids, times)
            begin += length
        stream.sessions = PartitionSessions(stream.sessions.gap)
        stream.board = Board()
        _restore_small(stream, cast(Commit, entry.state), tensors)


def _restore_small(stream: StreamState, commit: Commit, tensors: Mapping[str, Tensor]) -> None:
    stream.position, stream.reported_hour = commit["position"], commit["told"]
    stream.counts = Counts(**commit["counts"])
    stream.reader.restore(commit["reader"])
    stream.board.restore(commit["hours"])
    stream.sessions.restore(_part(tensors, "sessions"))
    stream.ended = histories_of(_part(tensors, "ended"), stream.predictor.vocabulary)


def _named(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {f"{part}.{name}": tensor for part, columns in parts.items() for name, tensor in columns.items()}


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
