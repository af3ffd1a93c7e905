"""A ``suggest`` predictor as the files of a model folder, and back. Nothing below the floor is in a file as a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from ensue.data.queries.tokens import QueryTokenizer
from ensue.nn.validation import require_table
from ensue.store.folder import described
from ensue.store.pack import files_of, read_packed
from ensue.store.tensors import read_tensors
from ensue.tasks.saved import NETWORK, network_files, read_network
from ensue.tasks.state import Contents, require_trained, summary_of
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.candidates import MIXED
from ensue.tasks.suggest.catalogue import MODELS as CATALOGUE
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.state import SuggestState
from ensue.training.optimizer import saved_optimizer


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


def summary(state: SuggestState) -> dict[str, object]:
    """What was learned from what, and how: goes into ``settings.json`` and the card."""
    return summary_of(state, {**state.metadata.to_dict(), "floor": state.floor.facts})


def contents(state: SuggestState, card: str) -> Contents:
    """The contents of a model folder, by file name."""
    require_trained(state.model)
    assert state.retrieval is not None
    fitted = Fitted(state.floor, state.tokenizer, state.retrieval, state.train_prints)
    network = state.module if state.schedule is not None else None
    return {**described(summary(state), card), **files_of(fitted), **network_files(network, state.optimizer)}


def fill(state: SuggestState, path: Path, facts: Mapping[str, Any]) -> None:
    """Give a new predictor what :func:`contents` wrote; every table is checked before anything computes with it."""
    state.metadata = metadata = Metadata.from_dict({key: value for key, value in facts.items() if key != "floor"})
    if metadata.mixture is not None and metadata.mixture.keys() != {*MIXED}:
        raise ValueError("the weights of the mixture in settings.json belong to another model")
    fitted = read_packed(Fitted, path)
    state.floor, state.tokenizer, state.train_prints = fitted.floor, fitted.tokenizer, fitted.train_prints
    state.model = state.retrieval = fitted.retrieval
    if state.schedule is None:
        return
    untrained = state.make_network if state.model_name in {*CATALOGUE} else None
    network = read_network(read_tensors(path, NETWORK), state.new_network, untrained, state.device)
    state.model = network
    state.optimizer = saved_optimizer(path, state.module, state.new_optimizer)


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of the queries that it was trained on."""
    queries = (
        "- the queries and words that reach the k-anonymity threshold, in `fitted.json` and `baselines.safetensors`;"
    )
    prints = "a 32-bit hash of each pair of queries that followed each other, for the evaluator"
    weights = "- what the weights store of words above the threshold; the network never saw words below it"
    pairs = "- what followed or co-occurred with what, counted in people, where enough people typed both"
    return [f"{queries} {prints}.", f"{pairs}.", f"{weights}."]
