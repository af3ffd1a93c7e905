"""A ``link`` predictor as the files of a model folder, and back. Articles are kept whole; of posts, numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from ensue.data.posts import Articles
from ensue.data.stored import read_stored
from ensue.errors import DataError
from ensue.store.folder import described, read_file
from ensue.store.tensors import read_tensors, tensor_bytes
from ensue.tasks.link import remembered
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.measures import Calibration
from ensue.tasks.link.metadata import Metadata
from ensue.tasks.link.models.network import LinkSettings
from ensue.tasks.link.models.sbert import SbertSettings
from ensue.tasks.link.optimizer import link_optimizer
from ensue.tasks.link.scores import SUM
from ensue.tasks.link.state import LinkState
from ensue.tasks.state import module_of, summary_of
from ensue.text.encoder import Encoder
from ensue.text.tokens import Tokenizer
from ensue.training.optimizer import FILE, optimizer_tensors, saved_optimizer

_RANKING = {"weights", "nothing", "pull", "calibration"}
"""What of the facts is no metadata, but ranks."""
_COLUMNS = ("bodies", "titles", "ids")
_NAMES = {"equal": SUM}
"""Former names of scores."""


def summary(state: LinkState) -> dict[str, object]:
    """What was learned from what, and how: goes into ``settings.json`` and the card."""
    own = asdict(state.settings) if state.settings is not None else {}
    facts = {
        **state.metadata.to_dict(),
        "weights": state.weights,
        "nothing": state.null_logit,
        "pull": state.prior_strength,
        "neighbours": state.neighbour_weight,
        "calibration": asdict(state.calibration) if state.calibration else None,
    }
    return summary_of(state, {**own, **asdict(state.shared)}, facts)


def contents(state: LinkState, card: str) -> dict[str, bytes]:
    """The contents of a model folder, by file name."""
    index = state.article_index
    counts = {name: torch.from_numpy(_signed(array)) for name, array in index.arrays().items()}
    network = state.network.state_dict() if isinstance(state.settings, LinkSettings) else {}
    contents = {
        **described(summary(state), card),
        "vocabulary.json": state.tokenizer.to_json().encode(),
        "articles.parquet": _parquet(index.articles),
        "linked.json": json.dumps(state.linked, ensure_ascii=False).encode(),
        "model.safetensors": tensor_bytes(network),
        "counting.safetensors": tensor_bytes({**counts, "vectors": index.vectors, "train_prints": state.train_prints}),
    }
    if state.remembered is not None:
        contents[remembered.FILE] = tensor_bytes(state.remembered.tensors())
    if state.optimizer is not None:
        contents[FILE] = tensor_bytes(optimizer_tensors(module_of(state.network), state.optimizer))
    return contents


def as_then(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Settings of a folder with those that were not known when it was written, at what was done then."""
    return {"bag": 0, "pretrain": "none", "residual": False, **settings} if "temperature" in settings else settings


def fill(state: LinkState, path: Path, facts: dict[str, Any]) -> None:
    """Give a new state what :func:`files` kept."""
    if not facts.keys() >= _RANKING:
        raise ValueError("facts are missing in settings.json")
    weights, calibration = facts.pop("weights"), facts.pop("calibration")
    state.weights = {_NAMES.get(name, str(name)): float(weight) for name, weight in weights.items()}
    state.null_logit, state.prior_strength = float(facts.pop("nothing")), float(facts.pop("pull"))
    state.neighbour_weight = float(facts.pop("neighbours", 0.0))  # former folders have none
    state.calibration = Calibration(**calibration) if calibration is not None else None
    state.metadata = Metadata.from_dict(facts)
    state.linked = tuple(map(str, json.loads(read_file(path, "linked.json"))))
    counts = read_tensors(path, "counting.safetensors")
    state.train_prints, vectors = counts.pop("train_prints"), counts.pop("vectors")
    arrays = {name: _unsigned(name, tensor.numpy()) for name, tensor in counts.items()}
    state.article_index = ArticleIndex.restored(_articles(path), arrays, vectors)
    if (path / remembered.FILE).exists():
        state.remembered = remembered.Remembered.restored(read_tensors(path, remembered.FILE))
    if isinstance(state.settings, SbertSettings):
        if state.metadata.encoder is None:
            raise ValueError("facts are missing in settings.json")
        state.model = Encoder(state.settings.encoder, state.device)
    if not isinstance(state.settings, LinkSettings):
        return
    try:
        state.tokenizer = Tokenizer.from_json(read_file(path, "vocabulary.json").decode(), "vocabulary.json")
    except DataError as error:
        raise ValueError(str(error)) from error
    tensors = read_tensors(path, "model.safetensors")
    if len(tensors["table.weight"]) != len(state.tokenizer.vocabulary):
        raise ValueError("vocabulary.json is not as long as the table of vectors")
    num_words, width = tensors["table.weight"].shape
    state.model = state.new_network(num_words, width - state.network_settings.beside)
    state.network.load_state_dict(tensors)
    if state.schedule is None:
        return
    make = partial(link_optimizer, state, state.schedule)
    state.optimizer = saved_optimizer(path, module_of(state.network), make)


def _parquet(articles: Articles) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({name: getattr(articles, name) for name in _COLUMNS}).write_parquet(buffer)
    return buffer.getvalue()


def _articles(path: Path) -> Articles:
    try:
        frame = read_stored(
            path / "articles.parquet", read_file(path, "articles.parquet"), dict.fromkeys(_COLUMNS, pl.String)
        )
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{path}/")) from error
    return Articles(*(frame[name].rename("") for name in _COLUMNS))


def _signed(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """What safetensors of every version can hold."""
    return np.array(array.view(np.int64) if array.dtype == np.uint64 else array)


def _unsigned(name: str, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return array.view(np.uint64) if name.endswith((".keys", ".terms")) else array
