"""A ``next`` predictor as the files of a model folder, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories
from ensue.nn.approximate import has_faiss
from ensue.nn.device import Undrawn
from ensue.store.folder import described, read_file
from ensue.store.tensors import TensorFile, read_tensors, tensor_bytes
from ensue.tasks.next import item_index
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.item_index import IndexFacts, ItemIndex
from ensue.tasks.next.metadata import Metadata
from ensue.tasks.next.state import NextState
from ensue.tasks.state import module_of, summary_of
from ensue.training.optimizer import FILE, make_optimizer, optimizer_tensors, saved_optimizer
from ensue.vocabulary import FIRST, Vocabulary

RESERVOIR = "reservoir.safetensors"
NAMES = {"settings.json", "vocabulary.json", "CARD.md", RESERVOIR, item_index.FILE} | {
    f"{part}.safetensors" for part in ("model", "counting", "optimizer")
}
"""All that a predictor may write; whatever else a folder holds goes with it, such as a stream's position."""


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
        "counting.safetensors": TensorFile({**counts, "train_prints": state.training_hashes}),
    }
    if state.optimizer is not None:
        found[FILE] = TensorFile(optimizer_tensors(module_of(state.network), state.optimizer))
    if state.index is not None:
        found[item_index.FILE] = state.index.to_bytes()
    if len(state.reservoir):
        found[RESERVOIR] = tensor_bytes(state.reservoir.tensors())
    return found


def summary(state: NextState) -> dict[str, object]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.summary`."""
    settings = {**asdict(state.settings), **asdict(state.shared)}
    return summary_of(state, settings, {**state.metadata.to_dict(), "remembered": len(state.reservoir)})


def fill(state: NextState, path: Path, saved: Mapping[str, Any]) -> None:
    """Give a new predictor what :func:`files` kept."""
    state.metadata = Metadata.from_dict({key: value for key, value in saved.items() if key != "remembered"})
    remembered = saved.get("remembered", 0)  # folders of before there was a reservoir lack it
    state.vocabulary = _vocabulary(read_file(path, "vocabulary.json"))
    counts = read_tensors(path, "counting.safetensors")
    prints = counts.pop("train_prints")
    if state.keeps_histories:  # folders of before kept them whatever replay was
        state.training_hashes = prints
    for name in state.baselines:
        if not any(key.startswith(f"{name}.") for key in counts):
            continue  # a row that came after the folder was written
        state.counting[name] = state.new_baseline(name)
        _fill_module(module_of(state.counting[name]), counts, f"{name}.")
        if len(state.counting[name].totals) != len(state.vocabulary):
            raise ValueError("vocabulary.json is not as long as the tables")
    if any(name.startswith("continuation.") for name in counts):  # folders of before there were forecasts lack it
        state.length_delay = LengthDelayModel()
        _fill_module(state.length_delay, counts, "continuation.")
    if state.schedule is None:
        state.model = state.counting[state.model_name] = state.new_baseline(state.model_name)
        _fill_module(module_of(state.model), read_tensors(path, "model.safetensors"))
        return
    with Undrawn():
        state.model = state.new_network()
    module = module_of(state.model)
    _fill_module(module, read_tensors(path, "model.safetensors"))
    module.to(state.device)
    state.optimizer = saved_optimizer(path, module, partial(make_optimizer, module, state.schedule))
    state.reservoir = state.new_reservoir()
    if remembered:
        state.reservoir.restore(read_tensors(path, RESERVOIR))
    facts = state.metadata.index
    if facts is not None and state.device.type == "cpu" and has_faiss():
        index = ItemIndex.of_bytes(read_file(path, item_index.FILE), IndexFacts(**facts))
        if index.facts.items > len(state.vocabulary) - FIRST:
            raise ValueError(f"{item_index.FILE} holds values that vocabulary.json lacks")
        state.index = index


def fingerprint(state: NextState, parts: Iterable[Histories]) -> str:
    """Names a training run by its model, settings and data."""
    seen = hashlib.blake2b(json.dumps([state.model_name, asdict(state.settings)]).encode(), digest_size=16)
    for part in parts:
        for column in (part.ids, part.offsets, part.times):
            seen.update(np.ascontiguousarray(column).data)
    return seen.hexdigest()


def _vocabulary(text: bytes) -> Vocabulary:
    values = json.loads(text)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("vocabulary.json is not a list of texts")
    return Vocabulary(values)


def _fill_module(module: nn.Module, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
    """Make the tensors under ``prefix`` a module's own; counting tables take the size they were saved with.

    A buffer that folders of before lack stays as it was made: so it changes nothing.
    """
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    for name, buffer in list(module.named_buffers()):
        if name in own and buffer.shape != own[name].shape:
            place, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(place), attribute, torch.empty_like(own[name]))
    module.load_state_dict(dict(module.named_buffers()) | own, assign=True)
