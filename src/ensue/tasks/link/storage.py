"""A ``link`` predictor as the files of a model folder, and back. Articles are kept whole; of posts, numbers."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch

from ensue.data.posts import Articles
from ensue.data.stored import read_stored
from ensue.data.tokens import Tokenizer
from ensue.errors import DataError
from ensue.nn.encoder import Encoder
from ensue.store.folder import described, read_file, read_tensors, tensor_bytes
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.link import keeping
from ensue.tasks.link.measures import Calibration
from ensue.tasks.link.sbert import SbertSettings
from ensue.tasks.link.scoring import Shelf
from ensue.tasks.link.task import Links
from ensue.training.optimizer import FILE, optimizer_tensors, saved_optimizer

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor

FACTS = {"articles", "posts", "links", "held_out", "weights", "nothing", "pull", "calibration"}
"""What a folder's facts must hold at least."""
_COLUMNS = ("bodies", "titles", "ids")


def files(predictor: LinkPredictor, card: str) -> dict[str, bytes]:
    """The contents of a model folder, by file name."""
    shelf = predictor.known
    counts = {name: torch.from_numpy(_signed(array)) for name, array in shelf.arrays().items()}
    network = predictor.model.state_dict() if predictor.schedule is not None else {}
    found = {
        **described(predictor.summary(), card),
        "vocabulary.json": predictor.tokenizer.to_json().encode(),
        "articles.parquet": _parquet(shelf.articles),
        "linked.json": json.dumps(predictor.linked, ensure_ascii=False).encode(),
        "model.safetensors": tensor_bytes(network),
        "counting.safetensors": tensor_bytes(
            {**counts, "vectors": shelf.vectors, "train_prints": predictor.train_prints}
        ),
    }
    if predictor.remembered is not None:
        found[keeping.FILE] = tensor_bytes(keeping.tensors_of(predictor.remembered))
    if predictor.optimizer is not None:
        found[FILE] = tensor_bytes(optimizer_tensors(predictor.model, predictor.optimizer))
    return found


def fill(predictor: LinkPredictor, path: Path, facts: dict[str, Any]) -> None:
    """Give a new predictor what :func:`files` kept."""
    if not set(facts) >= FACTS:
        raise ValueError("facts are missing in settings.json")
    weights, calibration = facts.pop("weights"), facts.pop("calibration")
    predictor.weights = {str(name): float(weight) for name, weight in weights.items()}
    predictor.nothing, predictor.pull = float(facts.pop("nothing")), float(facts.pop("pull"))
    predictor.calibration = Calibration(**calibration) if calibration is not None else None
    predictor.facts = facts
    predictor.linked = tuple(map(str, json.loads(read_file(path, "linked.json"))))
    counts = read_tensors(path, "counting.safetensors")
    predictor.train_prints, vectors = counts.pop("train_prints"), counts.pop("vectors")
    arrays = {name: _unsigned(name, tensor.numpy()) for name, tensor in counts.items()}
    predictor.shelf = Shelf.restored(_articles(path), arrays, vectors)
    if (path / keeping.FILE).exists():
        predictor.remembered = keeping.restored(read_tensors(path, keeping.FILE))
    if isinstance(predictor.settings, SbertSettings):
        if "encoder" not in facts:
            raise ValueError("facts are missing in settings.json")
        predictor.model = Encoder(predictor.settings.encoder, predictor.device)
    if predictor.schedule is None:
        return
    try:
        predictor.tokenizer = Tokenizer.from_json(read_file(path, "vocabulary.json").decode(), "vocabulary.json")
    except DataError as error:
        raise ValueError(str(error)) from error
    tensors = read_tensors(path, "model.safetensors")
    if len(tensors["table.weight"]) != len(predictor.tokenizer.vocabulary):
        raise ValueError("vocabulary.json is not as long as the table of vectors")
    predictor.model = predictor.new_network(*tensors["table.weight"].shape)
    predictor.model.load_state_dict(tensors)
    make = partial(new_optimizer, predictor.model, predictor.schedule)
    predictor.optimizer = saved_optimizer(path, predictor.model, make)


def fingerprint(predictor: LinkPredictor, data: Links) -> str:
    """Names a training run by its model, settings and data."""
    named = [predictor.model_name, asdict(predictor.settings), asdict(predictor.shared)]
    seen = hashlib.blake2b(json.dumps(named).encode(), digest_size=16)
    for column in (data.pairs, data.articles.ids, data.articles.texts, data.posts.ids, data.posts.texts):
        seen.update(np.ascontiguousarray(column).data)
    return seen.hexdigest()


def encoder_of(predictor: LinkPredictor) -> str:
    """Names what makes vectors of texts: the weights, the words, and the cap; or the encoder, and what tells it."""
    if isinstance(predictor.model, Encoder):
        told = json.dumps([predictor.model.name, predictor.facts["encoder"]]).encode()
        return hashlib.blake2b(told, digest_size=16).hexdigest()
    seen = hashlib.blake2b(predictor.tokenizer.to_json().encode(), digest_size=16)
    for name, tensor in predictor.model.state_dict().items():
        seen.update(name.encode() + np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    seen.update(str(predictor.settings.max_words).encode())
    return seen.hexdigest()


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


def _signed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What safetensors of every version can hold."""
    found: np.ndarray[Any, Any] = np.array(array.view(np.int64) if array.dtype == np.uint64 else array)
    return found


def _unsigned(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(np.uint64) if name.endswith((".keys", ".terms")) else array
