"""A ``suggest`` predictor as the files of a model folder, and back. Nothing below the floor is in a file as a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ensue.data.query_tokens import QueryTokenizer
from ensue.errors import DataError
from ensue.store.folder import described, read_file, read_tensors, tensor_bytes
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.retrieval import Retrieval
from ensue.tasks.suggest.task import Sessions
from ensue.training.optimizer import FILE, make_optimizer, optimizer_tensors, saved_optimizer

if TYPE_CHECKING:
    from ensue.tasks.suggest.predictor import SuggestPredictor

FACTS = {"sessions", "queries", "tokens", "normalisation"}
"""What a folder's facts must hold at least."""
PRINTS = "train_prints"


def files(predictor: SuggestPredictor, card: str) -> dict[str, bytes]:
    """The contents of a model folder, by file name."""
    assert predictor.retrieval is not None
    counts = {name: torch.from_numpy(np.array(array)) for name, array in predictor.retrieval.arrays().items()}
    network = predictor.network.state_dict() if predictor.schedule is not None else {}
    found = {
        **described(predictor.summary(), card),
        "tokenizer.json": predictor.tokenizer.to_json().encode(),
        "floor.json": predictor.floor.to_json().encode(),
        "model.safetensors": tensor_bytes(network),
        "counting.safetensors": tensor_bytes({**counts, PRINTS: predictor.train_prints}),
    }
    if predictor.optimizer is not None:
        found[FILE] = tensor_bytes(optimizer_tensors(predictor.network, predictor.optimizer))
    return found


def fill(predictor: SuggestPredictor, path: Path, facts: dict[str, Any]) -> None:
    """Give a new predictor what :func:`files` kept."""
    if not set(facts) >= FACTS:
        raise ValueError("facts are missing in settings.json")
    facts.pop("floor", None)
    predictor.facts = facts
    try:
        predictor.tokenizer = QueryTokenizer.from_json(read_file(path, "tokenizer.json").decode())
        predictor.floor = Floor.from_json(read_file(path, "floor.json").decode())
    except DataError as error:
        raise ValueError(str(error)) from error
    counts = {name: tensor.numpy() for name, tensor in read_tensors(path, "counting.safetensors").items()}
    predictor.train_prints = torch.from_numpy(counts.pop(PRINTS))
    predictor.retrieval = Retrieval.restore(counts)
    if predictor.schedule is None:
        predictor.model = predictor.retrieval
        return
    predictor.model = predictor.new_network()
    predictor.model.load_state_dict(read_tensors(path, "model.safetensors"))
    make = partial(make_optimizer, predictor.model, predictor.schedule)
    predictor.optimizer = saved_optimizer(path, predictor.model, make)


def fingerprint(predictor: SuggestPredictor, parts: Iterable[Sessions]) -> str:
    """Names a training run by its model, settings and data."""
    named = [predictor.model_name, asdict(predictor.settings), asdict(predictor.shared), len(predictor.tokenizer)]
    seen = hashlib.blake2b(json.dumps(named).encode(), digest_size=16)
    for part in parts:
        for column in (part.queries, part.starts, part.lengths, *part.spelled):
            seen.update(np.ascontiguousarray(column).data)
    return seen.hexdigest()
