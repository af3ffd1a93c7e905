"""A ``suggest`` predictor as the files of a model folder, and back. Nothing below the floor is in a file as a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from ensue.data.queries.tokens import QueryTokenizer
from ensue.learning.state import NETWORK, Folders
from ensue.nn.validation import require_table
from ensue.store.pack import read_tensors
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.candidates import MIXED
from ensue.tasks.suggest.catalogue import MODELS as CATALOGUE
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.state import SuggestState


@dataclass
class Fitted:
    """What a folder holds of a suggester, but for the weights of the network.

    Attributes:
        floor: what may be shown.
        tokenizer: cuts queries into tokens.
        retrieval: the counts.
        train_prints: (distinct pairs of queries,) their hashes.
    """

    floor: Floor
    tokenizer: QueryTokenizer
    retrieval: Retrieval
    train_prints: Annotated[Tensor, torch.int32]

    def __post_init__(self) -> None:
        """Check the shape of the hashes.

        Raises:
            ValueError: it is another.
        """
        require_table("train_prints", self.train_prints, torch.int32, [None])


def collect(state: SuggestState) -> Fitted:
    """Return the fitted values of a suggester."""
    assert state.retrieval is not None
    return Fitted(state.floor, state.tokenizer, state.retrieval, state.train_prints)


def shown(state: SuggestState) -> dict[str, object]:
    """Return the k-anonymity threshold and what is above it."""
    return {"floor": state.floor.facts}


def restore(state: SuggestState, fitted: Fitted, folder: Path) -> None:
    """Give a new state the fitted values and the network of a folder."""
    mixture = state.metadata.mixture
    if mixture is not None and mixture.keys() != {*MIXED}:
        raise ValueError("the weights of the mixture in settings.json belong to another model")
    state.floor, state.tokenizer, state.train_prints = fitted.floor, fitted.tokenizer, fitted.train_prints
    state.model = state.retrieval = fitted.retrieval
    if state.schedule is not None:
        state.read_network(folder, read_tensors(folder, NETWORK), bounded=state.model_name in {*CATALOGUE})


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of the queries that it was trained on."""
    queries = (
        "- the queries and words that reach the k-anonymity threshold, in `fitted.json` and `baselines.safetensors`;"
    )
    prints = "a 32-bit hash of each pair of queries that followed each other, for the evaluator"
    weights = "- what the weights store of words above the threshold; the network never saw words below it"
    pairs = "- what followed or co-occurred with what, counted in people, where enough people typed both"
    return [f"{queries} {prints}.", f"{pairs}.", f"{weights}."]


FOLDERS = Folders(Fitted, collect, restore, stored_data, shown)
