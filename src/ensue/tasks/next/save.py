"""A ``next`` predictor as the files of a model folder, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ensue.lines import plural
from ensue.nn.approximate import has_faiss
from ensue.nn.device import Undrawn
from ensue.nn.validation import Bounded, assign_tensors, require_shapes, require_table
from ensue.store.folder import described, read_json
from ensue.store.tensors import TensorFile, read_tensors, tensor_bytes
from ensue.tasks.next import item_index, reservoir
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.catalogue import BEST, MODELS
from ensue.tasks.next.item_features import KnownItems
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.metadata import Metadata
from ensue.tasks.next.model import Baseline
from ensue.tasks.next.reservoir import LATEST
from ensue.tasks.next.state import NextState
from ensue.tasks.state import module_of, summary_of
from ensue.training.optimizer import FILE, optimizer_tensors, saved_optimizer
from ensue.vocabulary import FIRST, Vocabulary


def contents(state: NextState, card: str) -> dict[str, bytes | TensorFile]:
    """The contents of a model folder, by file name; the large files are made as they are written."""
    parts = {name: baseline.state_dict() for name, baseline in state.counting.items()}
    if state.length_delay is not None:
        parts["continuation"] = state.length_delay.state_dict()
    counts = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.items()}
    found: dict[str, bytes | TensorFile] = {
        **described(summary(state), card),
        "vocabulary.json": json.dumps(list(state.vocabulary.values), ensure_ascii=False).encode(),
        "model.safetensors": TensorFile(state.network.state_dict()),
        "baselines.safetensors": TensorFile({**counts, "train_prints": state.training_hashes}),
    }
    if state.optimizer is not None:
        found[FILE] = TensorFile(optimizer_tensors(module_of(state.network), state.optimizer))
    if state.index is not None:
        found[item_index.FILE] = TensorFile(state.index.tensors())
    if state.known_items is not None:
        found |= state.known_items.contents()
    if len(state.reservoir):
        found[reservoir.FILE] = tensor_bytes(state.reservoir.tensors())
    return found


def summary(state: NextState) -> dict[str, object]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.summary`."""
    return summary_of(state, {**state.metadata.to_dict(), "remembered": len(state.reservoir)})


def fill(state: NextState, path: Path, saved: Mapping[str, Any]) -> None:
    """Give a new predictor what :func:`contents` wrote; every tensor is checked before anything computes with it."""
    state.metadata = Metadata.from_dict({key: value for key, value in saved.items() if key != "remembered"})
    state.vocabulary = _vocabulary(read_json(path, "vocabulary.json"))
    _fill_baselines(state, read_tensors(path, "baselines.safetensors"))
    tensors = read_tensors(path, "model.safetensors")
    if state.model_name in MODELS:  # what a model of one's own needs to be made is not for a folder to say
        with Undrawn(), Bounded(tensors):
            require_shapes(module_of(state.make_network()), tensors)
    with Undrawn():
        state.model = state.new_baseline(state.model_name) if state.schedule is None else state.new_network()
    module = module_of(state.model)
    assign_tensors(module, tensors)
    if state.metadata.item_columns:
        state.known_items = KnownItems.read(path, dict(module.named_parameters()), len(state.vocabulary))
    if state.schedule is None:
        state.counting[state.model_name] = cast(Baseline, state.model)
        return
    module.to(state.device)
    state.optimizer = saved_optimizer(path, module, state.new_optimizer)
    state.reservoir = state.new_reservoir()
    if saved["remembered"]:
        state.reservoir.restore(read_tensors(path, reservoir.FILE))
    facts = state.metadata.index
    if facts is not None and state.device.type == "cpu" and has_faiss():
        tensors, num_items = read_tensors(path, item_index.FILE), len(state.vocabulary) - FIRST
        state.index = ItemIndex.restored(tensors, facts, num_items)


def _fill_baselines(state: NextState, counts: dict[str, Tensor]) -> None:
    """Make the baselines, the lengths and delays, and the hashes of the training data from the tensors of a folder."""
    state.training_hashes = counts.pop("train_prints")
    require_table("train_prints", state.training_hashes, torch.int64, [None])
    state.counting = {name: state.new_baseline(name) for name in state.baselines}
    state.length_delay = LengthDelayModel()
    parts = {name: module_of(baseline) for name, baseline in state.counting.items()}
    assign_tensors(nn.ModuleDict({**parts, "continuation": state.length_delay}), counts)


def _vocabulary(values: object) -> Vocabulary:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("vocabulary.json is not a list of texts")
    vocabulary = Vocabulary(values)
    if len(vocabulary.values) < len(values):
        raise ValueError("vocabulary.json holds a value twice")
    return vocabulary


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of past sessions: they may be personal data."""
    sums = "item counts, transitions, lengths of sessions and pauses"
    shared = summary["facts"].get("min_users")
    if not (summary["schedule"] or summary["settings"]).get("replay", 1):
        one = "including pairs that only one session has"
        if shared:
            one = f"only runs of events that at least {shared['threshold']} people share are"
        return [f"- no single sessions: weights, and sums over all sessions ({sums}); {one}."]
    num, lines = summary["facts"]["remembered"], []
    if shared:
        lines.append(
            f"- only runs of events that at least {shared['threshold']} people share: what follows stores only "
            "those; their times are those of single people."
        )
    if num:
        many = plural(num, "past session")
        what = f"{many} (the latest {LATEST} events of each: ids and times, no names)"
        lines.append(f"- {what} in `reservoir.safetensors`, replayed by updates.")
    lines.append(
        "- the latest sessions of each item, as sets of ids, for VS-kNN, and a 64-bit fingerprint of each session, to "
        "detect test sessions that are in the training data, in `baselines.safetensors`."
    )
    if summary["model"] in BEST:
        held = "such sessions" if summary["model"] == "blend" else "past cascades in full (ids and times, no names)"
        lines.append(f"- {held} in `model.safetensors`: the model looks them up.")
    lines.append(f"- sums over all sessions: {sums}.")
    if summary["model"] != "vsknn":
        lines.append("- `ensue fit --set replay=0` stores only weights and sums.")
    return lines
