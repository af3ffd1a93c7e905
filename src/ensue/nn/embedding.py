"""Tables with a row an id: how they start, and how a network gets room for more ids."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.vocabulary import FIRST, PADDING

Network = TypeVar("Network", bound=nn.Module)


def rows_of(table: Tensor, ids: Tensor | slice) -> Tensor:
    """(…, dim) those rows of a table (ids, dim): of many ids several times faster than ``table[ids]``."""
    return table[ids] if isinstance(ids, slice) else functional.embedding(ids, table)


def start_normal(table: nn.Embedding, std: float) -> None:
    """Draw a table's rows from a normal distribution of this deviation; padding is 0."""
    nn.init.normal_(table.weight, std=std)
    clear_padding(table)


@torch.no_grad()
def clear_padding(table: nn.Embedding) -> None:
    """Set the row of padding to 0."""
    table.weight[PADDING].zero_()


@torch.no_grad()
def with_rows_of(earlier: nn.Module, larger: Network) -> Network:
    """A network that has just been made for more ids, with all that an earlier one of fewer ids learned.

    Of each tensor the first rows are those of before; what is beyond them stays as it was drawn::

        earlier  items.weight (5, 8)        ->  rows 0 to 4 of (7, 8)
        earlier  gru.weight_hh_l0 (24, 8)   ->  all of (24, 8)

    Args:
        earlier: the network of fewer ids.
        larger: another of the same class and settings; it is changed. A bias per id starts at the lowest one of before.
    """
    rows = larger.state_dict()  # the same memory as the parameters
    for name, tensor in earlier.state_dict().items():
        rows[name][: len(tensor)] = tensor
    for name, parameter in earlier.named_parameters():
        if parameter.dim() == 1 and len(parameter) < len(rows[name]):
            rows[name][len(parameter) :] = parameter[FIRST:].min()
    return larger
