"""A ``suggest`` predictor as the files of a model folder, and back. Nothing below the floor is in a file as a text."""

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

from ensue.data.queries.tokens import QueryTokenizer
from ensue.nn.device import Undrawn
from ensue.nn.validation import Bounded, require_shapes, require_table
from ensue.store.folder import MAX_JSON_BYTES, described, read_file
from ensue.store.tensors import read_tensors, tensor_bytes
from ensue.tasks.state import module_of, require_trained, summary_of
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.candidates import MIXED
from ensue.tasks.suggest.catalogue import MODELS as CATALOGUE
from ensue.tasks.suggest.dataset import Sessions
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.state import SuggestState
from ensue.training.optimizer import FILE, make_optimizer, optimizer_tensors, saved_optimizer

PRINTS = "train_prints"


def summary(state: SuggestState) -> dict[str, object]:
    """What was learned from what, and how: goes into ``settings.json`` and the card."""
    own = asdict(state.settings) if state.settings is not None else {}
    return summary_of(state, {**own, **asdict(state.shared)}, {**state.metadata.to_dict(), "floor": state.floor.facts})


def contents(state: SuggestState, card: str) -> dict[str, bytes]:
    """The contents of a model folder, by file name."""
    require_trained(state.model)
    assert state.retrieval is not None
    counts = {name: torch.from_numpy(np.array(array)) for name, array in state.retrieval.arrays().items()}
    network = state.module.state_dict() if state.schedule is not None else {}
    contents = {
        **described(summary(state), card),
        "tokenizer.json": state.tokenizer.to_json().encode(),
        "k_anonymity.json": state.floor.to_json().encode(),
        "model.safetensors": tensor_bytes(network),
        "baselines.safetensors": tensor_bytes({**counts, PRINTS: state.train_prints}),
    }
    if state.optimizer is not None:
        contents[FILE] = tensor_bytes(optimizer_tensors(state.module, state.optimizer))
    return contents


def fill(state: SuggestState, path: Path, facts: Mapping[str, Any]) -> None:
    """Give a new predictor what :func:`contents` wrote; every table is checked before anything computes with it."""
    state.metadata = metadata = Metadata.from_dict({key: value for key, value in facts.items() if key != "floor"})
    if metadata.mixture is not None and metadata.mixture.keys() != {*MIXED}:
        raise ValueError("the weights of the mixture in settings.json belong to another model")
    state.tokenizer = QueryTokenizer.from_json(read_file(path, "tokenizer.json", MAX_JSON_BYTES).decode())
    state.floor = Floor.from_json(read_file(path, "k_anonymity.json", MAX_JSON_BYTES).decode())
    counts = read_tensors(path, "baselines.safetensors")
    state.train_prints = counts.pop(PRINTS)
    require_table(PRINTS, state.train_prints, torch.int32, [None])
    state.retrieval = Retrieval.restore({name: tensor.numpy() for name, tensor in counts.items()})
    if state.schedule is None:
        state.model = state.retrieval
        return
    tensors = read_tensors(path, "model.safetensors")
    if state.model_name in {*CATALOGUE}:  # what a model of one's own needs to be made is not for a folder to say
        with Undrawn(), Bounded(tensors):
            require_shapes(module_of(state.untrained()), tensors)
    state.model = state.new_network()
    state.module.load_state_dict(tensors)
    make = partial(make_optimizer, state.module, state.schedule)
    state.optimizer = saved_optimizer(path, state.module, make)


def fingerprint(state: SuggestState, parts: Iterable[Sessions]) -> str:
    """Names a training run by its model, settings and data."""
    assert state.settings is not None  # counting is not trained
    named = [state.model_name, asdict(state.settings), asdict(state.shared), len(state.tokenizer)]
    seen = hashlib.blake2b(json.dumps(named).encode(), digest_size=16)
    for part in parts:
        for column in (part.queries, part.starts, part.lengths, *part.spelled):
            seen.update(np.ascontiguousarray(column).data)
    return seen.hexdigest()


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of the queries that it was trained on."""
    queries = (
        "- the queries and words that reach the k-anonymity threshold, in `k_anonymity.json`, `baselines.safetensors`"
    )
    prints = "and `tokenizer.json`; a 32-bit hash of each pair of queries that followed each other, for the evaluator"
    weights = "- what the weights store of words above the threshold; the network never saw words below it"
    pairs = "- what followed or co-occurred with what, counted in people, where enough people typed both"
    return [f"{queries} {prints}.", f"{pairs}.", f"{weights}."]
