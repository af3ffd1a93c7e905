"""Adam, row by row where a table is looked up: a step costs what a batch touches, not what the catalogue holds.

A lookup in a table made with ``sparse=True`` leaves a gradient of the rows it touched. :class:`RowAdam` moves those
rows and their moments, and leaves every other row as it is, to the bit ("lazy" Adam). So a moment fades with the steps
that touch its row, not with all of them; the correction for moments that start at 0 goes by all the steps of the table.
All other parameters are torch's Adam.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.adam import adam

from ensue import kernels
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.item_head import ItemLayer
from ensue.nn.validation import require_number, require_table
from ensue.schedule import Schedule
from ensue.store.folder import damage
from ensue.store.pack import OPTIMIZER, open_arrays, to_tensor

Group = Mapping[str, Any]
"""Parameters that share settings, and these by name, as torch's optimisers have them."""

MAX_DECAYED_ROWS = 100_000
"""Number of rows up to which L2 pulls at all rows of a table in every step, and not at the touched ones alone."""
SLOW = 0.1
"""Factor on the learning rate of slow parameters."""
FIELDS = ("step", "exp_avg", "exp_avg_sq")
"""State of Adam for a parameter: its steps, and running means of its gradient and of the square."""


class RowAdam(Adam):
    """Torch's fused Adam for dense gradients, and the same a row for sparse ones; see the module.

    Where every row of a table is touched in every step, it is Adam. The state has Adam's fields and shapes.
    """

    # Torch wraps these methods in functions that import its compiler at their first call: a second or more of a fit.
    add_param_group = inspect.unwrap(Adam.add_param_group)
    zero_grad = inspect.unwrap(Adam.zero_grad)
    _step_dense = torch.no_grad()(inspect.unwrap(Adam.step))

    touched: dict[Tensor, list[Tensor]] | None = None
    """Rows that each step has moved, by table; ``None`` where nobody needs them."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step on all parameters that have a gradient."""
        if closure is not None:
            raise NotImplementedError("compute the loss before the step; closures are not supported")
        sparse = [
            (group, parameter, parameter.grad)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and parameter.grad.is_sparse
        ]
        for _, parameter, _ in sparse:
            parameter.grad = None  # so that torch's step, which refuses sparse gradients, passes by
        self._step_dense()
        for group, parameter, grad in sparse:
            self._move(group, parameter, grad.coalesce())
            parameter.grad = grad

    @torch.no_grad()
    def _move(self, group: Group, table: Tensor, grad: Tensor) -> None:
        """Move the rows that a coalesced gradient holds."""
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros((), device=table.device)
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        rows = grad.indices()[0]
        if self.touched is not None:
            self.touched.setdefault(table, []).append(rows)
        _adam_rows(group, table, state, rows, grad.values())


def _compiled_adam_rows(group: Group, table: Tensor, state: Mapping[str, Tensor], rows: Tensor, grads: Tensor) -> None:
    beta1, beta2 = group["betas"]
    step = float(state["step"]) + 1
    width = table.shape[1:].numel()
    # Flatten all axes but the first: the kernel sees rows of numbers.
    weights, means, squares, grads = (
        tensor.view(len(tensor), width) for tensor in (table, state["exp_avg"], state["exp_avg_sq"], grads)
    )
    kernels.call(
        "adam_rows", ids=rows.contiguous(), grads=grads, weights=weights, means=means, squares=squares,
        rate=group["lr"] / (1 - beta1**step), root=math.sqrt(1 - beta2**step), rest1=1 - beta1, beta2=beta2,
        rest2=1 - beta2, eps=group["eps"], decay=group["weight_decay"], threads=torch.get_num_threads(),
    )  # fmt: skip
    state["step"] += 1


def _suits_adam_rows(group: Group, table: Tensor, state: Mapping[str, Tensor], rows: Tensor, grads: Tensor) -> bool:
    tensors = (table, state["exp_avg"], state["exp_avg_sq"], grads)
    return is_float32_on_cpu(*tensors) and all(tensor.is_contiguous() for tensor in tensors) and table.numel() > 0


@kernels.compiled(_compiled_adam_rows, when=_suits_adam_rows)
def _adam_rows(group: Group, table: Tensor, state: Mapping[str, Tensor], rows: Tensor, grads: Tensor) -> None:
    """Take a step of Adam on some rows of a table; none comes twice."""
    tables = (table, state["exp_avg"], state["exp_avg_sq"])
    # Gather the touched rows, let torch's fused Adam move them, and scatter them back.
    weights, means, squares = (state_table.index_select(0, rows) for state_table in tables)
    beta1, beta2 = group["betas"]
    adam(
        [weights], [grads], [means], [squares], [], [state["step"]],
        foreach=False, fused=True, amsgrad=False, maximize=False, beta1=beta1, beta2=beta2, eps=group["eps"],
        lr=group["lr"], weight_decay=group["weight_decay"],
    )  # fmt: skip
    for state_table, updated in zip(tables, (weights, means, squares), strict=True):
        state_table.index_copy_(0, rows, updated)


def make_optimizer(
    model: nn.Module, schedule: Schedule, *, undecayed: Iterable[Tensor] = (), slow: Iterable[Tensor] = ()
) -> RowAdam:
    """Return Adam with L2 as in the papers: added to the gradient, not decoupled.

    L2 moves every row in every step, so with it all tables of the model get dense gradients. In a table of more than
    ``MAX_DECAYED_ROWS`` rows it moves the rows that a step touches.

    Args:
        model: its parameters are trained.
        schedule: learning rate, decay of the mean of squared gradients, and weight of the penalty.
        undecayed: parameters without L2.
        slow: parameters with ``SLOW`` times the learning rate.
    """
    without_decay = set(undecayed)
    slowed = set(slow)
    if schedule.weight_decay > 0:
        for module in model.modules():
            if not isinstance(module, nn.Embedding | ItemLayer) or module.weight in without_decay:
                continue
            if len(module.weight) <= MAX_DECAYED_ROWS:
                # L2 moves all rows of a small table, so its gradient is dense.
                module.sparse = False
    parameters = [*model.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter in parameters if parameter not in without_decay | slowed]},
        {"params": [parameter for parameter in parameters if parameter in without_decay], "weight_decay": 0.0},
        {"params": [parameter for parameter in parameters if parameter in slowed], "pace": SLOW},
    ]
    return RowAdam(
        [group for group in groups if group["params"]],
        lr=schedule.learning_rate,
        betas=(0.9, schedule.beta2),
        weight_decay=schedule.weight_decay,
        fused=True,
    )


def by_row(model: nn.Module) -> set[Tensor]:
    """Return the tables whose lookups leave sparse gradients."""
    modules = [module for module in model.modules() if isinstance(module, nn.Embedding | ItemLayer) and module.sparse]
    biases = (module.bias for module in modules if isinstance(module, ItemLayer))
    return {module.weight for module in modules} | set(biases)


def optimizer_tensors(model: nn.Module, optimizer: Adam) -> dict[str, Tensor]:
    """Return the optimiser's state as tensors named ``parameter.field``; empty before the first step."""
    return {
        f"{name}.{field}": value
        for name, parameter in model.named_parameters()
        for field, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(model: nn.Module, optimizer: Adam, tensors: Mapping[str, Tensor]) -> None:
    """Put back what :func:`optimizer_tensors` gave; moments of rows that are new since then start at 0.

    Raises:
        ValueError: it is of another model.
    """
    _require_names(model, tensors.keys())
    for name, parameter in model.named_parameters():
        if f"{name}.step" in tensors:
            state = {field: tensors[f"{name}.{field}"] for field in FIELDS}
            require_table(f"{name}.step", state["step"], torch.float32, ())
            shape = (None, *parameter.shape[1:]) if parameter.dim() else ()  # rows may have come since
            for field in FIELDS[1:]:
                require_table(f"{name}.{field}", state[field], parameter.dtype, shape)
            for field in ("step", "exp_avg_sq"):
                require_number(f"{name}.{field}", state[field], math.inf)
            optimizer.state[parameter] = {field: _fitted(saved, parameter) for field, saved in state.items()}


def _require_names(model: nn.Module, names: Set[str]) -> None:
    """Require all fields of some parameters, and nothing else.

    Raises:
        ValueError: it is of another model.
    """
    trained = [name for name, _ in model.named_parameters() if f"{name}.step" in names]
    expected = {f"{name}.{field}" for name in trained for field in FIELDS}
    if expected != names:
        raise ValueError("optimizer.safetensors belongs to another model")


def saved_optimizer(folder: Path, model: nn.Module, make: Callable[[], Adam]) -> Callable[[], Adam]:
    """Return a function that makes an optimiser from the moments in a folder, which are not read before.

    Args:
        folder: a model folder in its present state.
        model: its parameters, as many rows as when it was saved.
        make: an optimiser of these parameters that has taken no step.

    Raises:
        ModelFolderError: the file is missing or damaged.
        ValueError: it is of another model.
    """
    names, read = open_arrays(folder, OPTIMIZER)
    _require_names(model, names)

    def restored() -> Adam:
        with damage(folder):
            optimizer = make()
            restore_optimizer(model, optimizer, {name: to_tensor(array) for name, array in read().items()})
        return optimizer

    return restored


def _fitted(saved: Tensor, parameter: Tensor) -> Tensor:
    if not saved.dim():
        return saved.clone()
    if len(saved) > len(parameter):
        raise ValueError("optimizer.safetensors has more ids than the model")
    # Rows that are new since the moments were saved start at 0.
    fitted = torch.zeros_like(parameter, requires_grad=False)
    fitted[: len(saved)] = saved.to(parameter.device)
    return fitted
