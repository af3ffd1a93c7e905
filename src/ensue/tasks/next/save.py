"""A ``next`` predictor as the files of a model folder, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import torch
from torch import Tensor

from ensue.learning.state import NETWORK, Contents, Folders
from ensue.lines import plural
from ensue.nn.approximate import has_faiss
from ensue.nn.validation import require_ids, require_table
from ensue.store.pack import TREE, TensorFile, read_tensors
from ensue.tasks.next import item_index
from ensue.tasks.next.baselines.counting import Cooccurrence, ItemCounts, Markov, Popularity, SequentialRules
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.baselines.own_items import OwnItems
from ensue.tasks.next.baselines.recent import Recent
from ensue.tasks.next.baselines.session_knn import VSKNN
from ensue.tasks.next.catalogue import BEST, COUNTING, MODELS
from ensue.tasks.next.ensembles.blend_memory import BlendMemory
from ensue.tasks.next.ensembles.cascade_store import CascadeStore
from ensue.tasks.next.item_features import KnownItems
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.model import Baseline, Remembers
from ensue.tasks.next.reservoir import LATEST, Reservoir
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST, Vocabulary


@dataclass(eq=False)
class Fitted:
    """Fitted values of a predictor, without the weights of the network.

    Attributes:
        vocabulary: the items.
        training_hashes: (histories,) fingerprints of the training data.
        length_delay: how long histories get and pauses last.
        reservoir: past histories, which updates train on again.
        popularity: of the baselines, as are all that follow; ``None`` where it may not be stored.
        blend_memory: of a blend.
        cascades: of a cascade blend.
    """

    vocabulary: Vocabulary
    training_hashes: Annotated[Tensor, torch.int64]
    length_delay: LengthDelayModel
    reservoir: Reservoir
    popularity: Popularity
    recent: Recent
    markov: Markov
    rules: SequentialRules
    own_items: OwnItems
    cooccurrence: Cooccurrence
    interpolated: Interpolated
    vsknn: VSKNN | None = None
    blend_memory: BlendMemory | None = None
    cascades: CascadeStore | None = None

    def __post_init__(self) -> None:
        """Check that everything is of the same items.

        Raises:
            ValueError: it is not.
        """
        num_ids = len(self.vocabulary)
        require_table("training_hashes", self.training_hashes, torch.int64, [None])
        require_ids("reservoir.ids", self.reservoir.ids, num_ids, FIRST)
        self.reservoir.vocabulary = self.vocabulary
        for name, counts in vars(self).items():
            if isinstance(counts, ItemCounts | BlendMemory | CascadeStore) and counts.num_ids != num_ids:
                raise ValueError(f"{name} counts {counts.num_ids} ids, but there are {num_ids}")

    @property
    def baselines(self) -> dict[str, Baseline]:
        """The baselines by their names in the catalogue."""
        baselines = {name: getattr(self, _field(name)) for name in COUNTING}
        return {name: baseline for name, baseline in baselines.items() if baseline is not None}

    @property
    def memory(self) -> BlendMemory | CascadeStore | None:
        """What an ensemble counts."""
        return self.blend_memory if self.cascades is None else self.cascades


def _field(name: str) -> str:
    return name.replace("-", "_")


def collect(state: NextState) -> Fitted:
    """Return the fitted values of a predictor."""
    baselines = {_field(name): baseline for name, baseline in state.counting.items() if name in COUNTING}
    memory = state.network.memory if isinstance(state.network, Remembers) else None
    return Fitted(
        state.vocabulary,
        state.training_hashes,
        state.length_delay,
        state.reservoir,
        blend_memory=memory if isinstance(memory, BlendMemory) else None,
        cascades=memory if isinstance(memory, CascadeStore) else None,
        **baselines,  # type: ignore[arg-type]
    )


def shown(state: NextState) -> dict[str, object]:
    """Return the number of past sessions in the reservoir."""
    return {"remembered": len(state.reservoir)}


def files(state: NextState) -> Contents:
    """Return the files of the item index and of the item table, where there are any."""
    index = {} if state.index is None else {item_index.FILE: TensorFile(state.index.tensors())}
    return {**index, **(state.known_items.contents() if state.known_items is not None else {})}


def restore(state: NextState, fitted: Fitted, folder: Path) -> None:
    """Give a new state the fitted values, the network, the item table and the index of a folder."""
    state.vocabulary, state.training_hashes = fitted.vocabulary, fitted.training_hashes
    state.length_delay, state.reservoir = fitted.length_delay, fitted.reservoir
    state.counting = {**fitted.baselines}
    if state.model_name in COUNTING:
        state.model = state.counting[state.model_name]
        return
    state.read_network(folder, read_tensors(folder, NETWORK), bounded=state.model_name in {*MODELS})
    network = state.network
    if state.metadata.item_columns:
        parameters = dict(state.module.named_parameters())
        state.known_items = KnownItems.read(folder, parameters, len(state.vocabulary))
    if state.schedule is None:
        state.counting[state.model_name] = cast(Baseline, network)
        return
    if isinstance(network, Remembers):
        if type(network.memory) is not type(fitted.memory):
            raise ValueError(f"{TREE} belongs to another model")
        network.memory = fitted.memory
    index = state.metadata.index
    if index is not None and state.device.type == "cpu" and has_faiss():
        tensors, num_items = read_tensors(folder, item_index.FILE), len(state.vocabulary) - FIRST
        state.index = ItemIndex.restored(tensors, index, num_items)


def stored_data(summary: Mapping[str, Any]) -> list[str]:
    """Return what the folder stores of past sessions: they may be personal data."""
    sums = "item counts, transitions, lengths of sessions and pauses"
    shared = summary["facts"].get("min_users")
    if not (summary["schedule"] or summary["settings"]).get("replay", 1):
        one = "including pairs that only one session has"
        if shared:
            one = f"only runs of events that at least {shared['threshold']} people share are"
        return [f"- no single sessions: weights, and sums over all sessions ({sums}); {one}."]
    num, lines = summary["facts"]["remembered"], []
    if shared:
        lines.append(
            f"- only runs of events that at least {shared['threshold']} people share: what follows stores only "
            "those; their times are those of single people."
        )
    if num:
        many = plural(num, "past session")
        what = f"{many} (the latest {LATEST} events of each: ids and times, no names)"
        lines.append(f"- {what} in `baselines.safetensors`, replayed by updates.")
    lines.append(
        "- the latest sessions of each item, as sets of ids, for VS-kNN, and a 64-bit fingerprint of each session, to "
        "detect test sessions that are in the training data, in `baselines.safetensors`."
    )
    if summary["model"] in BEST:
        cascades = "such sessions" if summary["model"] == "blend" else "past cascades in full (ids and times, no names)"
        lines.append(f"- {cascades} in `baselines.safetensors`: the model looks them up.")
    lines.append(f"- sums over all sessions: {sums}.")
    if summary["model"] != "vsknn":
        lines.append("- `ensue fit --set replay=0` stores only weights and sums.")
    return lines


FOLDERS = Folders(Fitted, collect, restore, stored_data, shown, files)
