"""A ``link`` predictor as the files of a model folder, and back. Articles are kept whole; of posts, numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from pydantic import Field
from torch import Tensor

from ensue.data.posts.dataset import Articles
from ensue.data.stored import read_stored
from ensue.errors import DataError
from ensue.lines import plural
from ensue.nn.device import Undrawn
from ensue.nn.validation import Bounded, require_shapes, require_table
from ensue.store.folder import MAX_JSON_BYTES, described, read_file, read_json
from ensue.store.tensors import read_tensors, tensor_bytes
from ensue.tasks.link import remembered
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.encode import require_remembered
from ensue.tasks.link.measures import Calibration
from ensue.tasks.link.metadata import Metadata
from ensue.tasks.link.optimizer import link_optimizer
from ensue.tasks.link.scores import names_of
from ensue.tasks.link.settings import LinkSettings, SbertSettings
from ensue.tasks.link.state import LinkState
from ensue.tasks.metadata import require_fact
from ensue.tasks.state import module_of, summary_of
from ensue.text.encoder import Encoder
from ensue.text.lexical import require_rising
from ensue.text.tokens import Tokenizer
from ensue.training.optimizer import FILE, optimizer_tensors, saved_optimizer

Number = Annotated[float, Field(ge=-1e9, le=1e9)]
_RANKING = {
    "weights": dict[str, Number], "nothing": Number, "pull": Number, "neighbours": Number,
    "calibration": Calibration | None,
}  # fmt: skip
"""The facts that are no metadata, but rank."""
_COLUMNS = ("bodies", "titles", "ids")
POST_TERMS = "posts.terms"
"""The tensor of the words of the training posts, in ``baselines.safetensors``."""


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
    arrays = {**index.arrays(), POST_TERMS: state.post_terms}
    counts = {name: torch.from_numpy(_signed(array)) for name, array in arrays.items()}
    network = state.network.state_dict() if isinstance(state.settings, LinkSettings) else {}
    contents = {
        **described(summary(state), card),
        "vocabulary.json": state.tokenizer.to_json().encode(),
        "articles.parquet": _parquet(index.articles),
        "linked.json": json.dumps(state.linked, ensure_ascii=False).encode(),
        "model.safetensors": tensor_bytes(network),
        "baselines.safetensors": tensor_bytes({**counts, "vectors": index.vectors, "train_prints": state.train_prints}),
    }
    if state.remembered is not None:
        contents[remembered.FILE] = tensor_bytes(state.remembered.tensors())
    if state.optimizer is not None:
        contents[FILE] = tensor_bytes(optimizer_tensors(module_of(state.network), state.optimizer))
    return contents


def fill(state: LinkState, path: Path, facts: dict[str, Any]) -> None:
    """Give a new state what :func:`contents` wrote; every table is checked before anything computes with it."""
    if not facts.keys() >= _RANKING.keys():
        raise ValueError("metadata is missing in settings.json")
    for name, kind in _RANKING.items():
        require_fact(name, kind, facts[name])
    state.weights, calibration = facts.pop("weights"), facts.pop("calibration")
    state.null_logit, state.prior_strength = facts.pop("nothing"), facts.pop("pull")
    state.neighbour_weight = facts.pop("neighbours")
    state.calibration = Calibration(**calibration) if calibration is not None else None
    state.metadata = Metadata.from_dict(facts)
    linked = read_json(path, "linked.json")
    require_fact("linked.json", list[str], linked)
    state.linked = tuple(cast("list[str]", linked))
    if isinstance(state.settings, SbertSettings):
        if state.metadata.encoder is None:
            raise ValueError("metadata is missing in settings.json")
        state.model = Encoder(state.settings.encoder, state.device)
    if isinstance(state.settings, LinkSettings):
        _fill_network(state, path)
    _fill_index(state, path)
    if (path / remembered.FILE).exists():
        state.remembered = remembered.Remembered.restored(read_tensors(path, remembered.FILE))
        require_remembered(state, state.remembered)


def _fill_network(state: LinkState, path: Path) -> None:
    text = read_file(path, "vocabulary.json", MAX_JSON_BYTES).decode()
    state.tokenizer = Tokenizer.from_json(text, "vocabulary.json")
    tensors, num_words = read_tensors(path, "model.safetensors"), len(state.tokenizer.vocabulary)
    require_table("table.weight", tensors["table.weight"], torch.float32, [num_words, None])
    dim = tensors["table.weight"].shape[1] - state.network_settings.beside
    if dim < 0:
        raise ValueError("the vectors of words are too short for the settings")
    with Undrawn(), Bounded(tensors):
        require_shapes(state.empty_network(num_words, dim), tensors)
    state.model = state.new_network(num_words, dim)
    state.network.load_state_dict(tensors)
    if state.schedule is not None:
        make = partial(link_optimizer, state, state.schedule)
        state.optimizer = saved_optimizer(path, module_of(state.network), make)


def _fill_index(state: LinkState, path: Path) -> None:
    """Make the index of articles from the tables of a folder."""
    counts = read_tensors(path, "baselines.safetensors")
    state.train_prints, vectors = counts.pop("train_prints"), counts.pop("vectors")
    require_table("train_prints", state.train_prints, torch.int64, [None])
    arrays = {name: _unsigned(name, tensor) for name, tensor in counts.items()}
    state.post_terms = arrays.pop(POST_TERMS).astype(np.uint64)
    require_rising(POST_TERMS, state.post_terms)
    state.article_index = index = ArticleIndex.restored(_articles(path), arrays, vectors)
    if state.model is None or not isinstance(state.model, Encoder):
        width = 0 if state.model is None else state.model.width
        require_table("vectors", vectors, torch.float32, [len(index), width])
    if not state.weights.keys() <= {*names_of(state)}:
        raise ValueError("the weights in settings.json belong to another model")


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


def _unsigned(name: str, tensor: Tensor) -> npt.NDArray[np.generic]:
    if not name.endswith((".keys", ".terms")):
        return tensor.numpy()
    require_table(name, tensor, torch.int64, [None])
    return tensor.numpy().view(np.uint64)


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of the articles and posts that it was trained on."""
    articles = "- every article in full, in `articles.parquet`, and its terms as numbers in `baselines.safetensors`"
    posts = "- a 64-bit fingerprint of each post and of each of its words, no text; of networks, `vocabulary.json` too"
    vectors = "- vectors of the posts that `ensue link --folder` ranked last, next to the folder in `NAME.posts`"
    lines = [f"{articles}.", f"{posts}.", f"{vectors}."]
    if num := int(summary["facts"].get("remembered", 0)):
        what = f"{plural(num, 'held-out post')} as word ids, with their articles, in"
        lines.append(f"- {what} `remembered.safetensors`, to test updates on; whoever guesses a word can look for it;")
        lines.append("  `ensue fit --set remembered=0` stores none.")
    return lines
