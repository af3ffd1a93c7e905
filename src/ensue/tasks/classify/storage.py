"""A ``classify`` predictor as the files of a model folder, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ensue.data.tokens import Tokenizer
from ensue.errors import DataError
from ensue.schedule import Schedule
from ensue.store.folder import described, read_file, read_tensors, tensor_bytes
from ensue.tasks.classify import MODELS, keeping
from ensue.tasks.classify.blend import NETWORK
from ensue.tasks.classify.counting import Majority, MeanVectors, Tfidf
from ensue.tasks.classify.task import Passages
from ensue.training.optimizer import FILE, RowAdam, optimizer_tensors, saved_optimizer

if TYPE_CHECKING:
    from ensue.tasks.classify.predictor import ClassifyPredictor

FACTS = {"texts", "labels", "paired", "architecture", "temperature", "strength"}
"""What a folder's facts must hold at least."""


def files(predictor: ClassifyPredictor, card: str) -> dict[str, bytes]:
    """The contents of a model folder, by file name."""
    counts = {
        f"{name}.{key}": tensor for name, module in predictor.counting.items() for key, tensor in _small(module).items()
    }
    network = predictor.network.state_dict() if predictor.schedule is not None else {}
    found = {
        **described(predictor.summary(), card),
        "vocabulary.json": predictor.tokenizer.to_json().encode(),
        "model.safetensors": tensor_bytes(network),
        "counting.safetensors": tensor_bytes({**counts, "train_prints": predictor.train_prints}),
    }
    if predictor.optimizer is not None:
        found[FILE] = tensor_bytes(optimizer_tensors(predictor.network, predictor.optimizer))
    if predictor.remembered is not None:
        found[keeping.FILE] = tensor_bytes(keeping.tensors_of(predictor.remembered))
    return found


def fill(predictor: ClassifyPredictor, path: Path, facts: dict[str, Any]) -> None:
    """Give a new predictor what :func:`files` kept."""
    if not set(facts) >= FACTS | ({"encoder"} if predictor.encoder is not None else set()):
        raise ValueError("facts are missing in settings.json")
    predictor.facts = facts
    try:
        predictor.tokenizer = Tokenizer.from_json(read_file(path, "vocabulary.json").decode(), "vocabulary.json")
    except DataError as error:
        raise ValueError(str(error)) from error
    num_words = len(predictor.tokenizer.vocabulary)
    if facts.pop("words") != num_words - 2:
        raise ValueError("vocabulary.json is not of this model")
    counts = read_tensors(path, "counting.safetensors")
    predictor.train_prints = counts.pop("train_prints")
    if (path / keeping.FILE).exists():
        predictor.remembered = keeping.restored(read_tensors(path, keeping.FILE))
    for name in dict.fromkeys(key.partition(".")[0] for key in counts):
        own = {key.partition(".")[2]: _wide(key, counts[key]) for key in counts if key.startswith(f"{name}.")}
        predictor.counting[name] = new_counting(predictor, name, own.get("matrix", torch.zeros(0, 0)))
        predictor.counting[name].restore(own)
    if not set(facts.get("blend", ())) <= {NETWORK, *predictor.counting} or ("blend" in facts) != (
        predictor.model_name == "blend"
    ):
        raise ValueError("the weights of the blend are not of this model")
    if predictor.schedule is None:
        predictor.model = predictor.counting[predictor.model_name]
        return
    tensors = read_tensors(path, "model.safetensors")
    if len(tensors["table.weight"]) != (num_words if predictor.encoder is None else 0):
        raise ValueError("vocabulary.json is not as long as the table of vectors")
    predictor.model = predictor.new_network(*tensors["table.weight"].shape)
    predictor.model.load_state_dict(tensors)
    make = partial(new_optimizer, predictor.model, predictor.schedule)
    predictor.optimizer = saved_optimizer(path, predictor.model, make)


def new_counting(predictor: ClassifyPredictor, name: str, matrix: Tensor) -> Tfidf | MeanVectors | Majority:
    """One of ``COUNTING`` that has learned nothing."""
    num_labels, strength = len(predictor.labels), predictor.facts["strength"].get(name, 1.0)
    module = MODELS[name][0]
    if module is Majority:
        return Majority(num_labels)
    if module is Tfidf:
        return Tfidf(num_labels, strength)
    return MeanVectors(num_labels, strength, matrix, 2 if predictor.facts["paired"] else 1)


def new_optimizer(network: Any, schedule: Schedule) -> RowAdam:
    """Adam with L2 on everything but the vectors of words, whose rows move when a batch touches them."""
    table = network.table.weight
    rest = [parameter for parameter in network.parameters() if parameter is not table]
    groups = [{"params": rest, "weight_decay": schedule.weight_decay}, {"params": [table], "weight_decay": 0.0}]
    return RowAdam(groups, lr=schedule.learning_rate, fused=True)


def fingerprint(predictor: ClassifyPredictor, parts: Mapping[str, Passages]) -> str:
    """Names a training run by its model, settings and data."""
    named = [predictor.model_name, asdict(predictor.settings), predictor.facts["labels"], predictor.architecture]
    seen = hashlib.blake2b(json.dumps(named).encode(), digest_size=16)
    for part in parts.values():
        for column in (part.ids, part.starts, part.sizes, part.first, part.targets):
            seen.update(np.ascontiguousarray(column).data)
    return seen.hexdigest()


def _small(module: Tfidf | MeanVectors | Majority) -> dict[str, Tensor]:
    """Its tensors; the weights, which are rounded to float32, at half the size."""
    return {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in module.tensors().items()}


def _wide(key: str, tensor: Tensor) -> Tensor:
    return tensor.double() if key.endswith((".weight", ".bias")) else tensor
