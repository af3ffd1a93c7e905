"""Similar items: the nearest ones by the vectors that a network learned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from ensue.answers import Choice
from ensue.errors import SettingError
from ensue.learning.state import module_of
from ensue.lines import quoted
from ensue.nn.item_head import ItemTable
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST, UNKNOWN


@torch.no_grad()
def similar(state: NextState, values: Sequence[str], k: int) -> list[list[Choice]]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.similar`."""
    tables = [module for module in module_of(state.network).modules() if isinstance(module, ItemTable)]
    if not tables:
        raise SettingError(f"{state.model_name} has no vectors of items; fit a network, such as --model core")
    ids = [state.vocabulary.id(value) for value in values]
    if UNKNOWN in ids:
        raise SettingError(f"{quoted(values[ids.index(UNKNOWN)])} is not an item of the model")
    vectors = functional.normalize(tables[0].weight, dim=1)
    cosines = vectors[torch.tensor(ids)] @ vectors.T
    cosines[:, [*range(FIRST), *(state.metadata.forgotten or ())]] = -torch.inf
    cosines[torch.arange(len(ids)), torch.tensor(ids)] = -torch.inf
    titles = state.known_items.titles if state.known_items is not None else {}
    best, nearest = cosines.topk(min(k, cosines.shape[1]), dim=1)
    return [
        [
            Choice(value := state.vocabulary.value(id), score, title=titles.get(value, ""))
            for id, score in zip(row.tolist(), scores.tolist(), strict=True)
            if score > -torch.inf
        ]
        for row, scores in zip(nearest, best, strict=True)
    ]
