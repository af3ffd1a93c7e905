"""From texts to probabilities: scores of the network or of a counting model, divided by its temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.texts import Texts
from ensue.errors import SettingError
from ensue.learning.state import evaluating, require_trained
from ensue.metrics import Floats
from ensue.tasks.classify.baselines.majority import Majority
from ensue.tasks.classify.batch import Batch, Output
from ensue.tasks.classify.dataset import Sides, prints
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.state import ClassifyState

GROUP = 6000
"""Words that are read together in prediction."""


def scores(state: ClassifyState, texts: Texts, counting: str | None) -> Floats:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.scores`."""
    require_trained(state.model)
    return probabilities(state, state.encode(texts), counting)


def probabilities(state: ClassifyState, sides: Sides, counting: str | None = None) -> Floats:
    """(records, labels) calibrated probabilities; a record without words gets the shares of the labels."""
    temperature = state.metadata.temperature.get(counting or state.model_name, 1.0)
    shares: Floats = (raw_scores(state, sides, counting).double() / temperature).softmax(1).numpy()
    if (silent := np.sum([tokens.lengths for tokens in sides], axis=0) == 0).any():
        majority = state.counting["majority"]
        assert isinstance(majority, Majority)
        shares[silent] = majority.shares().numpy()
    if not np.isfinite(shares).all():
        raise SettingError(
            f"the probabilities of {counting or state.model_name} are not finite numbers; fit it again with "
            "settings closer to the defaults"
        )
    return shares


def raw_scores(state: ClassifyState, sides: Sides, counting: str | None = None) -> Tensor:
    """(records, labels) scores before temperature and softmax, on the CPU."""
    name = counting or state.model_name
    if name in state.counting:
        return state.counting[name].scores(sides)
    if weights := state.metadata.blend if name != blend.NETWORK else None:
        used = {part: weight for part, weight in weights.items() if weight} or weights
        return blend.pool({part: raw_scores(state, sides, part) for part in used}, used)
    passages = state.passages(sides)
    totals = torch.zeros(len(passages), len(state.labels))

    def score(index: Index) -> None:
        totals[torch.from_numpy(index)] = run(state, passages.batch(index)).scores.float().cpu()

    evaluating(state.network)
    side_by_side(score, reversed(list(passages.groups(GROUP))))
    return totals


def run(state: ClassifyState, batch: Batch) -> Output:
    """The network on a batch, in evaluation mode."""
    with torch.inference_mode():
        return evaluating(state.network)(batch.to(state.device))


def seen(state: ClassifyState, texts: Texts) -> npt.NDArray[np.bool_]:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.seen`."""
    return np.isin(prints(texts), state.train_prints.numpy())


Part = TypeVar("Part")


def side_by_side(run: Callable[[Part], None], parts: Iterable[Part]) -> None:
    """Call ``run`` on every part, on as many threads as torch may use; inside, torch uses one.

    Args:
        run: must not depend on the order of the parts.
        parts: taken as they are needed. A part that fails ends the others that have not begun, and its error is raised.
    """
    todo, threads = list(parts), torch.get_num_threads()
    if threads < 2 or len(todo) < 2:
        for part in todo:
            run(part)
        return
    with ThreadPoolExecutor(min(threads, len(todo)), initializer=lambda: torch.set_num_threads(1)) as pool:
        futures = [pool.submit(run, part) for part in todo]
        try:
            for future in futures:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # the threads of the pool have set it for all that start later
