"""What HiDAN's study keeps of a trained model: sums by cascade under each protocol, and what is made of them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.evaluation import bootstrap
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.next_event import score
from ensue.metrics import Floats
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.cached_runs import CachedRun
from ensue_studies.hidan_paper import MEASURES
from ensue_studies.rows import Values

AT = (10, 50, 100)
NAMES = (*MEASURES, "mrr@100")
PROTOCOLS = ("macro", "full")
END = "end"
"""As full, but the end of a cascade is a target too."""
_COLUMNS = [metrics.names(AT).index(name) for name in NAMES]
GROUP = 2000
"""Target steps looked at together."""


def sums(
    predictor: NextPredictor, test: Histories, counting: str | None = None, *, protocols: Sequence[str] = PROTOCOLS
) -> CachedRun:
    """The measures of a model under each protocol, summed by cascade: what every row and verdict is made of."""
    found: CachedRun = {}
    for protocol in protocols:
        if protocol == END:
            rank, sequence = with_end(predictor, test, counting)
        else:
            run = score(predictor, test, protocol, counting)
            rank, sequence = run.rank, run.sequence
        table, targets = metrics.per_sequence(metrics.values(rank, AT)[:, _COLUMNS], sequence, len(test))
        packed = np.concatenate([table, targets[:, None]], axis=1).astype("<f4")
        found[protocol] = base64.b64encode(zlib.compress(packed.tobytes())).decode("ascii")
    return found


def with_end(predictor: NextPredictor, test: Histories, counting: str | None = None) -> tuple[Floats, Index]:
    """Ranks and cascades of all targets where the end of a cascade is one too, as some later papers score.

    The chance to stop (:class:`ensue.tasks.next.forecast.LengthDelayModel`) stands among the users' shares of the rest;
    whom the cascade holds is ruled out. These figures say little of who comes next: the end is nearly always near the
    top.
    """
    assert predictor.length_delay is not None
    module = predictor.counting[counting] if counting else predictor.network
    known = test.encode(predictor.vocabulary, drop_unknown=True)
    owners, ranks, sequences = known.sequence_index(), [], []
    for windows, last in (
        (Windows(known, module.reach), False),
        (Windows(known.select(known.lengths > 0), module.reach, last_only=True), True),
    ):
        data = windows.histories
        names = owners if not last else np.flatnonzero(known.lengths)[data.sequence_index()]
        for index in windows.groups(GROUP):
            output, targets = predictor.scores(windows, index, module)
            positions = windows.positions(index)
            shares = hide_seen(output.scores, data, positions).softmax(1).double()
            so_far = positions - data.offsets[data.sequence_index()[positions]] + 1
            stop = torch.from_numpy(predictor.length_delay.stop_chances(so_far))[:, None]
            users = shares * (1 - stop)
            wanted = stop if last else users.gather(1, targets[:, None])
            others = (users >= wanted).sum(1) + (0 if last else (stop >= wanted)[:, 0].long() - 1)
            ranks.append((1 + others).double().numpy())
            sequences.append(names[positions])
    missed = np.maximum(test.lengths - 1, 0) - np.maximum(known.lengths - 1, 0)
    none = np.full(int(missed.sum()), metrics.MISS)
    return np.concatenate([*ranks, none]), np.concatenate([*sequences, np.repeat(np.arange(len(test)), missed)])


def unpacked(text: str) -> Floats:
    """(cascades, measures + 1) what :func:`sums` has packed; the last column: targets."""
    table: Floats = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f4").reshape(-1, len(NAMES) + 1)
    return table.astype(np.float64)


def resample(
    runs: Mapping[str, Sequence[Floats]], protocol: str, chosen: npt.NDArray[np.bool_], resamples: int
) -> dict[str, BootstrapResult]:
    """Draw cascades anew, the same for all models, and of each model its seeds.

    Args:
        runs: :func:`unpacked` tables of each model, one a seed.
        protocol: macro, the mean over a cascade's targets and then over cascades; full, the mean over targets.
        chosen: (cascades,) which count.
        resamples: how often.
    """
    used = chosen & (next(iter(runs.values()))[0][:, -1] > 0)
    tables = [[_summed(table[used], protocol) for table in seeds] for seeds in runs.values()]

    def figures(times: Floats) -> Iterator[Floats]:
        for seeds in tables:
            yield np.stack([(summed := times @ table)[:, :-1] / summed[:, -1:] for table in seeds])

    by_seed = [np.stack([table[:, :-1].sum(0) / table[:, -1].sum() for table in seeds]) for seeds in tables]
    drawn = bootstrap.resample([*map(len, tables)], int(used.sum()), figures, order="units first", resamples=resamples)
    return {name: BootstrapResult(NAMES, seeds, draws) for name, seeds, draws in zip(runs, by_seed, drawn, strict=True)}


def _summed(table: Floats, protocol: str) -> Floats:
    """A table whose sums over cascades are the figures' parts: under macro each cascade counts once."""
    return np.append(table[:, :-1] / table[:, -1:], np.ones((len(table), 1)), axis=1) if protocol == "macro" else table


def of_cells(cells: Sequence[Values], protocol: str) -> list[Floats]:
    """The tables of some seeds."""
    return [unpacked(cell[protocol]) for cell in cells]
