"""A ``classify`` predictor as the files of a model folder, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ensue.nn.device import Undrawn
from ensue.nn.validation import Bounded, require_shapes, require_table
from ensue.store.folder import MAX_JSON_BYTES, described, read_file
from ensue.store.tensors import read_tensors, tensor_bytes
from ensue.tasks.classify import remembered
from ensue.tasks.classify.catalogue import COUNTING
from ensue.tasks.classify.catalogue import MODELS as CATALOGUE
from ensue.tasks.classify.dataset import Passages
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.metadata import Metadata
from ensue.tasks.classify.model import Baseline
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.classify.state import ClassifyState
from ensue.tasks.state import module_of, require_trained, summary_of
from ensue.text.tokens import Tokenizer
from ensue.training.optimizer import FILE, optimizer_tensors, saved_optimizer
from ensue.vocabulary import FIRST


def summary(state: ClassifyState) -> dict[str, object]:
    """What was learned from what, and how: goes into ``settings.json`` and the card."""
    return summary_of(
        state,
        {**asdict(state.settings), **asdict(state.shared)},
        {**state.metadata.to_dict(), "words": len(state.tokenizer.vocabulary) - FIRST},
    )


def contents(state: ClassifyState, card: str) -> dict[str, bytes]:
    """The contents of a model folder, by file name."""
    require_trained(state.model)
    counts = {
        f"{name}.{key}": tensor for name, baseline in state.counting.items() for key, tensor in _small(baseline).items()
    }
    network = state.module.state_dict() if state.schedule is not None else {}
    contents = {
        **described(summary(state), card),
        "vocabulary.json": state.tokenizer.to_json().encode(),
        "model.safetensors": tensor_bytes(network),
        "baselines.safetensors": tensor_bytes({**counts, "train_prints": state.train_prints}),
    }
    if state.optimizer is not None:
        contents[FILE] = tensor_bytes(optimizer_tensors(state.module, state.optimizer))
    if state.remembered is not None:
        contents[remembered.FILE] = tensor_bytes(remembered.tensors_of(state.remembered))
    return contents


def fill(state: ClassifyState, path: Path, saved: Mapping[str, Any]) -> None:
    """Give a new predictor what :func:`contents` wrote; every table is checked before anything computes with it."""
    state.metadata = metadata = Metadata.from_dict({key: value for key, value in saved.items() if key != "words"})
    if state.encoder is not None and metadata.encoder is None:
        raise ValueError("metadata is missing in settings.json")
    if len(set(metadata.labels)) < len(metadata.labels) or metadata.paired != (metadata.architecture == "pair"):
        raise ValueError("the labels or the architecture in settings.json belong to different models")
    state.tokenizer = Tokenizer.from_json(
        read_file(path, "vocabulary.json", MAX_JSON_BYTES).decode(), "vocabulary.json"
    )
    num_words = len(state.tokenizer.vocabulary)
    if saved["words"] != num_words - FIRST:
        raise ValueError("vocabulary.json belongs to another model")
    _fill_baselines(state, read_tensors(path, "baselines.safetensors"))
    if (path / remembered.FILE).exists():
        tensors, sides = read_tensors(path, remembered.FILE), 2 if metadata.paired else 1
        state.remembered = remembered.restored(tensors, sides, num_words, len(metadata.labels))
    parts = {*state.counting, *([NETWORK] if state.model_name == "blend" else [])}
    if not {*(metadata.blend or ())} <= parts or (metadata.blend is None) == (state.model_name == "blend"):
        raise ValueError("the weights of the blend belong to another model")
    if metadata.residual and not ("vectors" in state.counting and "vectors" in metadata.temperature):
        raise ValueError("the word vectors that the network adds to are missing")
    if state.schedule is None:
        state.model = state.counting[state.model_name]
        return
    tensors = read_tensors(path, "model.safetensors")
    table, rows = tensors["table.weight"], num_words if state.encoder is None else 0
    require_table("table.weight", table, torch.float32, [rows, None])
    if state.model_name in {*CATALOGUE}:  # what a model of one's own needs to be made is not for a folder to say
        with Undrawn(), Bounded(tensors):
            require_shapes(module_of(state.untrained(rows, table.shape[1])), tensors)
    state.model = state.new_network(rows, table.shape[1])
    state.module.load_state_dict(tensors)
    make = partial(new_optimizer, state.module, state.schedule)
    state.optimizer = saved_optimizer(path, state.module, make)


def _fill_baselines(state: ClassifyState, counts: dict[str, Tensor]) -> None:
    """Make the baselines and the hashes of the training texts from the tensors of a folder."""
    state.train_prints = counts.pop("train_prints")
    require_table("train_prints", state.train_prints, torch.int64, [None])
    names = {key.partition(".")[0] for key in counts}
    if not {"majority"} <= names <= {*COUNTING}:
        raise ValueError("baselines.safetensors belongs to another model")
    for name in sorted(names, key=COUNTING.index):
        own = {key.partition(".")[2]: tensor for key, tensor in counts.items() if key.startswith(f"{name}.")}
        if "matrix" in own:
            require_table("vectors.matrix", own["matrix"], torch.float32, [len(state.tokenizer.vocabulary), None])
        state.counting[name] = state.new_counting(name, state.metadata.strength.get(name, 1.0), own.get("matrix"))
        state.counting[name].restore(own)


def fingerprint(state: ClassifyState, parts: Mapping[str, Passages]) -> str:
    """Names a training run by its model, settings and data."""
    named = [state.model_name, asdict(state.settings), state.metadata.labels, state.architecture]
    seen = hashlib.blake2b(json.dumps(named).encode(), digest_size=16)
    for part in parts.values():
        for column in (part.ids, part.starts, part.sizes, part.first, part.targets):
            seen.update(np.ascontiguousarray(column).data)
    return seen.hexdigest()


def _small(baseline: Baseline) -> dict[str, Tensor]:
    """Its tensors; the weights, which are rounded to float32, at half the size."""
    return {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in baseline.tensors().items()}


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of the training texts: single words may be personal data."""
    num = int(summary["settings"].get("remembered", 0))
    words = (
        "- every word of the training texts in `vocabulary.json` (`ensue fit --set min_count=5`: those seen 5 times)"
    )
    prints = (
        "a 64-bit fingerprint of each text in `baselines.safetensors`, to detect test texts that are in "
        "the training data"
    )
    lines = [f"{words}, and {prints}."]
    if num:
        what = f"up to {num:,} held-out texts as word ids, with their labels, in `remembered.safetensors`"
        lines.append(f"- {what}, to test updates on; `ensue fit --set remembered=0` stores none.")
    return lines
