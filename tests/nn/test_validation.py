"""Checks of loaded tables."""

from __future__ import annotations

import pytest
import torch

from ensue.nn.validation import require_ids, require_offsets, require_table


def test_tables_that_fit_pass() -> None:
    require_table("items", torch.zeros(3, 2, dtype=torch.int32), torch.int32, [None, 2])
    require_ids("items", torch.tensor([2, 4]), 5, start=2)
    require_ids("items", torch.zeros(0, dtype=torch.int64), 0)
    require_offsets("starts", torch.tensor([0, 0, 3]), 3, rows=2)


@pytest.mark.parametrize(("table", "shape"), [(torch.zeros(3, 2), [3, 2]), (torch.zeros(3, dtype=torch.int32), [3, 2])])
def test_another_type_or_shape_is_refused(table: torch.Tensor, shape: list[int]) -> None:
    with pytest.raises(ValueError, match=r"items is .* of shape .*, not int32 of shape \(3, 2\)"):
        require_table("items", table, torch.int32, shape)


@pytest.mark.parametrize("ids", [[5], [-1], [2**62], [-(2**63)]])
def test_an_id_outside_the_range_is_refused(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"items holds {ids[0]}, outside \[0, 5\)"):
        require_ids("items", torch.tensor(ids), 5)


def test_ids_are_integers() -> None:
    with pytest.raises(ValueError, match="not integers"):
        require_ids("items", torch.zeros(2), 5)


@pytest.mark.parametrize("offsets", [[], [0], [1, 3], [0, 2], [0, 4, 3], [0, -1, 3], [0, 2**62, 3]])
def test_offsets_that_do_not_cut_what_is_there_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="starts"):
        require_offsets("starts", torch.tensor(offsets, dtype=torch.int64), 3)


def test_the_number_of_rows_is_checked() -> None:
    with pytest.raises(ValueError, match="starts"):
        require_offsets("starts", torch.tensor([0, 1, 3]), 3, rows=3)
