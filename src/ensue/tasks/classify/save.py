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
from torch import Tensor

from ensue.errors import DataError
from ensue.store.folder import described, read_file
from ensue.store.tensors import read_tensors, tensor_bytes
from ensue.tasks.classify import remembered
from ensue.tasks.classify.dataset import Passages
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.metadata import Metadata
from ensue.tasks.classify.model import Baseline
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.classify.state import ClassifyState
from ensue.tasks.state import require_trained, summary_of
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
        "counting.safetensors": tensor_bytes({**counts, "train_prints": state.train_prints}),
    }
    if state.optimizer is not None:
        contents[FILE] = tensor_bytes(optimizer_tensors(state.module, state.optimizer))
    if state.remembered is not None:
        contents[remembered.FILE] = tensor_bytes(remembered.tensors_of(state.remembered))
    return contents


def fill(state: ClassifyState, path: Path, saved: Mapping[str, Any]) -> None:
    """Give a new predictor what :func:`files` kept."""
    state.metadata = metadata = Metadata.from_dict({key: value for key, value in saved.items() if key != "words"})
    if state.encoder is not None and metadata.encoder is None:
        raise ValueError("facts are missing in settings.json")
    try:
        state.tokenizer = Tokenizer.from_json(read_file(path, "vocabulary.json").decode(), "vocabulary.json")
    except DataError as error:
        raise ValueError(str(error)) from error
    num_words = len(state.tokenizer.vocabulary)
    if saved["words"] != num_words - FIRST:
        raise ValueError("vocabulary.json is not of this model")
    counts = read_tensors(path, "counting.safetensors")
    state.train_prints = counts.pop("train_prints")
    if (path / remembered.FILE).exists():
        state.remembered = remembered.restored(read_tensors(path, remembered.FILE))
    for name in dict.fromkeys(key.partition(".")[0] for key in counts):
        own = {key.partition(".")[2]: _wide(key, counts[key]) for key in counts if key.startswith(f"{name}.")}
        state.counting[name] = state.new_counting(name, metadata.strength.get(name, 1.0), own.get("matrix"))
        state.counting[name].restore(own)
    blended = state.model_name == "blend"
    if not {*(metadata.blend or ())} <= {NETWORK, *state.counting} or (metadata.blend is not None) != blended:
        raise ValueError("the weights of the blend are not of this model")
    if state.schedule is None:
        state.model = state.counting[state.model_name]
        return
    tensors = read_tensors(path, "model.safetensors")
    if len(tensors["table.weight"]) != (num_words if state.encoder is None else 0):
        raise ValueError("vocabulary.json is not as long as the table of vectors")
    state.model = state.new_network(*tensors["table.weight"].shape)
    state.module.load_state_dict(tensors)
    make = partial(new_optimizer, state.module, state.schedule)
    state.optimizer = saved_optimizer(path, state.module, make)


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


def _wide(key: str, tensor: Tensor) -> Tensor:
    return tensor.double() if key.endswith((".weight", ".bias")) else tensor
