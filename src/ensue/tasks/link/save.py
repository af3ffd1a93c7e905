"""A ``link`` predictor as the files of a model folder, and back. Articles are kept whole; of posts, numbers."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import torch
from pydantic import Field
from torch import Tensor

from ensue.data.files import read_stored
from ensue.data.posts.dataset import Articles
from ensue.errors import DataError
from ensue.learning.state import NETWORK, Contents, Folders
from ensue.lines import plural
from ensue.nn.validation import require_table
from ensue.store.folder import read_file
from ensue.store.pack import TREE, read_tensors
from ensue.tasks.link.article_index import KINDS, ArticleIndex
from ensue.tasks.link.encode import require_remembered
from ensue.tasks.link.measures import Calibration
from ensue.tasks.link.remembered import Remembered
from ensue.tasks.link.scores import names_of
from ensue.tasks.link.settings import LinkSettings, SbertSettings
from ensue.tasks.link.state import LinkState
from ensue.text.encoder import Encoder
from ensue.text.latent import Latent
from ensue.text.lexical import Lexical, require_rising
from ensue.text.terms import Keys
from ensue.text.tokens import Tokenizer

Number = Annotated[float, Field(ge=-1e9, le=1e9)]
_COLUMNS = ("bodies", "titles", "ids")


@dataclass(eq=False)
class Fitted:
    """What a folder holds of a linker, but for its articles and the weights of the network.

    Attributes are those of :class:`~ensue.tasks.link.state.LinkState` and, of its index of articles, of
    :class:`~ensue.tasks.link.article_index.ArticleIndex`.
    """

    tokenizer: Tokenizer
    lexical: dict[str, Lexical]
    latent: Latent
    vectors: Annotated[Tensor, torch.float32]
    train_prints: Annotated[Tensor, torch.int64]
    post_terms: Keys
    linked: tuple[str, ...]
    weights: dict[str, Number]
    null_logit: Number
    prior_strength: Number
    neighbour_weight: Number
    calibration: Calibration | None = None
    remembered: Remembered | None = None

    def __post_init__(self) -> None:
        """Check that the tables are whole.

        Raises:
            ValueError: they are not.
        """
        if self.lexical.keys() != KINDS.keys():
            raise ValueError(f"lexical: the kinds are not {', '.join(KINDS)}")
        require_table("train_prints", self.train_prints, torch.int64, [None])
        require_rising("post_terms", self.post_terms)


_OF_STATE = (
    "tokenizer", "train_prints", "post_terms", "linked", "weights", "null_logit", "prior_strength", "neighbour_weight",
    "calibration", "remembered",
)  # fmt: skip
_OF_INDEX = ("lexical", "latent", "vectors")


def collect(state: LinkState) -> Fitted:
    """Return the fitted values of a linker."""
    index = state.article_index
    return Fitted(
        **{name: getattr(state, name) for name in _OF_STATE}, **{name: getattr(index, name) for name in _OF_INDEX}
    )


def shown(state: LinkState) -> dict[str, object]:
    """Return the weights of the scores, and the calibration."""
    return {
        "weights": state.weights,
        "nothing": state.null_logit,
        "pull": state.prior_strength,
        "neighbours": state.neighbour_weight,
        "calibration": asdict(state.calibration) if state.calibration else None,
    }


def files(state: LinkState) -> Contents:
    """Return the file of the articles."""
    buffer = io.BytesIO()
    pl.DataFrame({name: getattr(state.articles, name) for name in _COLUMNS}).write_parquet(buffer)
    return {"articles.parquet": buffer.getvalue()}


def restore(state: LinkState, fitted: Fitted, path: Path) -> None:
    """Give a new state the fitted values, the articles and the network of a folder."""
    for name in _OF_STATE:
        setattr(state, name, getattr(fitted, name))
    if isinstance(state.settings, SbertSettings):
        if state.metadata.encoder is None:
            raise ValueError("facts.encoder: is missing")
        state.model = Encoder(state.settings.encoder, state.device)
    if isinstance(state.settings, LinkSettings):
        _fill_network(state, path)
    state.article_index = index = ArticleIndex(_articles(path), fitted.lexical, fitted.vectors, fitted.latent)
    if any(len(lexical) != len(index) for lexical in index.lexical.values()):
        raise ValueError(f"the terms in {TREE} are of other articles")
    if not isinstance(state.model, Encoder):
        width = 0 if state.model is None else state.model.width
        require_table("vectors", index.vectors, torch.float32, [len(index), width])
    if not state.weights.keys() <= {*names_of(state)}:
        raise ValueError("weights: belong to another model")
    if state.remembered is not None:
        require_remembered(state, state.remembered)


def _fill_network(state: LinkState, path: Path) -> None:
    tensors, num_words = read_tensors(path, NETWORK), len(state.tokenizer.vocabulary)
    require_table("table.weight", tensors["table.weight"], torch.float32, [num_words, None])
    dim = tensors["table.weight"].shape[1] - state.network_settings.beside
    if dim < 0:
        raise ValueError("the vectors of words are too short for the settings")
    state.read_network(path, tensors, num_words, dim)


def _articles(path: Path) -> Articles:
    try:
        frame = read_stored(
            path / "articles.parquet", read_file(path, "articles.parquet"), dict.fromkeys(_COLUMNS, pl.String)
        )
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{path}/")) from error
    return Articles(*(frame[name].rename("") for name in _COLUMNS))


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of the articles and posts that it was trained on."""
    articles = "- every article in full, in `articles.parquet`, and its terms as numbers in `baselines.safetensors`"
    posts = "- a 64-bit fingerprint of each post and of each of its words, no text; of networks, their words too"
    vectors = "- vectors of the posts that `ensue link --folder` ranked last, next to the folder in `NAME.posts`"
    lines = [f"{articles}.", f"{posts}.", f"{vectors}."]
    if num := int(summary["facts"].get("remembered", 0)):
        what = f"{plural(num, 'held-out post')} as word ids, with their articles, in"
        lines.append(f"- {what} `baselines.safetensors`, to test updates on; whoever guesses a word can look for it;")
        lines.append("  `ensue fit --set remembered=0` stores none.")
    return lines


FOLDERS = Folders(Fitted, collect, restore, stored_data, shown, files)
