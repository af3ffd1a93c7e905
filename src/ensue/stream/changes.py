"""Rows of a network that a stream has moved since its last commit: an entry of the journal, and how it is replayed.

Everything here needs torch; the stream of a baseline never imports it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ensue.data.histories import Histories
from ensue.learning.state import module_of
from ensue.nn.validation import require_ids, require_number, require_table
from ensue.store.folder import damage
from ensue.store.pack import pack, unpack
from ensue.stream.commit import Commit, Entry, commit_of, restore_state
from ensue.stream.sessions import HistoryTable, PartitionSessions, Seen
from ensue.stream.state import StreamState
from ensue.tasks.next import update
from ensue.tasks.next.state import NextMetadata, NextState
from ensue.training.optimizer import FIELDS, RowAdam, by_row, optimizer_tensors
from ensue.vocabulary import FIRST


@dataclass(eq=False, kw_only=True)
class Changed:
    """An entry of the journal: the state, and what changed in the model since the commit before."""

    commit: Commit
    values: list[str]
    """New values."""
    rows: dict[str, Tensor]
    """Weights and moments that were moved; see :class:`Changes`."""
    seen: tuple[Seen, ...]
    """Events of each step."""
    ended: tuple[HistoryTable, ...]
    """Sessions that were counted."""
    metadata: dict[str, object]


def entry_of(
    stream: StreamState, values: list[str], rows: Mapping[str, Tensor], seen: list[Seen], ended: list[Histories]
) -> Entry:
    """Return an entry of the journal.

    Args:
        stream: as it stands.
        values: new since the commit before.
        rows: weights and moments that were moved since then.
        seen: what each step since then brought.
        ended: sessions that were counted since then.
    """
    changed = Changed(
        commit=commit_of(stream),
        values=values,
        rows=dict(rows),
        seen=tuple(seen),
        ended=tuple(map(HistoryTable.of, ended)),
        metadata=stream.predictor.metadata.to_dict(),
    )
    return Entry(*pack(changed))


def changed_in(entry: Entry, folder: Path) -> Changed:
    """Return a commit of the journal.

    Raises:
        ModelFolderError: it is damaged; the message names the folder.
    """
    with damage(folder):
        return unpack(Changed, entry.tree, entry.arrays)


def replay(stream: StreamState, changed: Changed) -> None:
    """Put a stream that stands at one commit where the next of its journal stood.

    Raises:
        ModelFolderError: the commit is damaged.
    """
    predictor = stream.predictor
    with damage(stream.folder):
        # New values first: rows and ids of this entry refer to them.
        predictor.add_values(changed.values)
        apply_changes(predictor, changed.rows)
        for table in changed.ended:
            sessions = table.histories(predictor.vocabulary)
            predictor.reservoir.add(sessions)
            update.count(predictor, sessions)
        predictor.metadata = NextMetadata.from_dict(changed.metadata)
        for events in changed.seen:
            events.require_fit("seen", len(predictor.vocabulary))
            stream.baselines.see(events)
            predictor.observe(events.ids, events.times)
        # The entry holds all open sessions, not what changed in them.
        stream.sessions = PartitionSessions(stream.sessions.gap)
        restore_state(stream, changed.commit)


class Changes:
    """Which rows of a network were moved since the last commit, as its optimiser tells.

    Args:
        state: of a trained model whose tables are learned by rows.
    """

    def __init__(self, state: NextState) -> None:
        self.state = state
        assert isinstance(state.optimizer, RowAdam)
        self._touched = state.optimizer.touched = {}
        self._num_ids = len(state.vocabulary)

    @property
    def bytes(self) -> int:
        """Size of a commit, at most; rows that were updated twice count twice."""
        # Bytes of one row times the number of updated rows; weights and two moments.
        sizes = (table[:1].nbytes * sum(map(len, rows)) for table, rows in self._touched.items())
        return 3 * sum(sizes)

    def take(self) -> tuple[list[str], dict[str, Tensor]]:
        """New values since the last commit, and tensors to apply by :func:`apply_changes`; a new list begins."""
        module = module_of(self.state.network)
        assert self.state.optimizer is not None
        moments = optimizer_tensors(module, self.state.optimizer)
        tables = by_row(module)
        fresh = torch.arange(self._num_ids, len(self.state.vocabulary))
        tensors: dict[str, Tensor] = {}
        for name, parameter in module.named_parameters():
            fields = {"": parameter.detach()}
            if f"{name}.step" in moments:
                tensors[f"whole.{name}.step"] = moments[f"{name}.step"]
                fields |= {f".{field}": moments[f"{name}.{field}"] for field in FIELDS[1:]}
            # Small or dense tensors are written whole.
            if parameter not in tables:
                tensors |= {f"whole.{name}{field}": tensor for field, tensor in fields.items()}
                continue
            # Rows of new values are new even where no gradient reached them.
            rows = torch.unique(torch.cat([*self._touched.get(parameter, []), fresh.to(parameter.device)]))
            tensors[f"ids.{name}"] = rows
            tensors |= {f"rows.{name}{field}": tensor.index_select(0, rows) for field, tensor in fields.items()}
        values = list(self.state.vocabulary.values[self._num_ids - FIRST :])
        self._touched.clear()
        self._num_ids = len(self.state.vocabulary)
        return values, {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def apply_changes(state: NextState, tensors: Mapping[str, Tensor]) -> None:
    """Put rows, moments and small tensors of a commit in their places; new values have been added before.

    Raises:
        ValueError: it is of another model.
    """
    module = module_of(state.network)
    optimizer = state.optimizer
    assert optimizer is not None
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            moments = optimizer.state[parameter]
            _apply(name, parameter, moments, tensors)
            # An empty state was made for a parameter that was never moved.
            if not moments:
                del optimizer.state[parameter]


def _apply(name: str, parameter: Tensor, moments: dict[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Put the part of a commit that is of one parameter, weights and moments, in its place."""
    if f"whole.{name}.step" in tensors:
        moments["step"] = tensors[f"whole.{name}.step"].clone()
        require_table(f"{name}.step", moments["step"], torch.float32, ())
        require_number(f"{name}.step", moments["step"], math.inf)
    for suffix in ("", *(f".{moment}" for moment in FIELDS[1:])):
        full = tensors.get(f"whole.{name}{suffix}")
        rows = tensors.get(f"rows.{name}{suffix}")
        if full is None and rows is None:
            continue
        target = parameter.data if not suffix else moments.setdefault(suffix[1:], torch.zeros_like(parameter))
        if full is not None:
            require_table(f"whole.{name}{suffix}", full, target.dtype, target.shape)
            # In place: the optimiser and the index hold references to these tensors.
            target.copy_(full)
        elif rows is not None:
            ids = tensors[f"ids.{name}"]
            require_table(f"ids.{name}", ids, torch.int64, [None])
            require_ids(f"ids.{name}", ids, len(target))
            require_table(f"rows.{name}{suffix}", rows, target.dtype, (len(ids), *target.shape[1:]))
            target.index_copy_(0, ids.to(target.device), rows.to(target.device))
    if not moments:
        return
    if moments.keys() != set(FIELDS):
        raise ValueError(f"{name} lacks moments of the optimiser")
    require_number(f"{name}.exp_avg_sq", moments["exp_avg_sq"], math.inf)


def large_by_rows(module: nn.Module, min_bytes: int) -> bool:
    """Return whether weights and moments are at least that large, and nearly all in tables updated by rows."""
    tables = by_row(module)
    sizes = [(parameter.nbytes, parameter in tables) for parameter in module.parameters()]
    total, dense = sum(size for size, _ in sizes), sum(size for size, sparse in sizes if not sparse)
    # 3: weights and two moments. Dense parts are written in every commit, so they may be an eighth, or 1 MB.
    return bool(tables) and 3 * total >= min_bytes and 8 * dense <= total + 8 * 2**20
