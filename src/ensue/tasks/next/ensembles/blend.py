"""Blend: a weighted sum of a trained network, similar past sessions, transitions, and repeats.

A network generalises but blurs rare items; nearest neighbours remember rare items; counts know transitions and how
often items repeat at each distance. They are combined in four ways:

- The vector of a candidate is CORE's unit vector plus ``lean`` times the mean vector of the items that past sessions
  contain next to it, normalised again: co-occurring items move together, and rare items gain the most.
- The score of a candidate is CORE's score plus ln(1 + share / ``FLOOR``), with its share among VS-kNN's neighbours: 0
  for an item that no neighbour contains, and concave above.
- ln(1 + share / ``STEP_FLOOR``) is added, with its share among the direct followers of the latest event, which helps
  most where people switch between a few items; and the logarithm of interpolated counts.
- Items of the session itself get a bias by their distance.

Each of these terms is multiplied by its weight in ``part_weights``. With all other weights 0 the blend is the
interpolated counts.

``lean`` maximises NDCG@20 on the held-out part, with weight 1 of the network and of the neighbours. All other weights
are those of a conditional logit over the ``CANDIDATES`` that rank highest there: over the whole catalogue the tail
would dominate the likelihood. The network is left out unless a likelihood-ratio test (Wilks 1938) shows that it
improves the sum. Finally all weights are multiplied by one factor, so that held-out targets are likeliest among the
whole catalogue: it changes no order, but calibrates probabilities. Then all parts are trained on everything.

=====================  =========================================================
network                :class:`ensue.tasks.next.models.core.CORE`
memory                 :class:`ensue.tasks.next.baselines.session_knn.VSKNN`
following              :class:`ensue.tasks.next.baselines.counting.Markov`
interpolated counts    :class:`ensue.tasks.next.baselines.interpolated.Interpolated`
candidate vectors      ``Blend.table``
sum of scores          ``Blend.forward``
choice of weights      ``Blend.finish``
=====================  =========================================================

The model is from no paper; ``ensue compare`` measures it against its parts.

Held-out targets of an ensemble: a random sample, its ranking quality, and the calibration of its probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, cast
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.learning.ensemble import Candidates, fit_weights
from ensue.nn.item_head import ALL_IDS, Output, Product, rows_of
from ensue.nn.validation import LARGEST_COUNT, require_number
from ensue.tasks.next.baselines.session_knn import AT_ONCE, VSKNN
from ensue.tasks.next.batch import Batch, PaddedBatch
from ensue.tasks.next.dataset import Windows, hide_seen, repeats
from ensue.tasks.next.ensembles import blend_counts
from ensue.tasks.next.ensembles.blend_counts import REPEATS
from ensue.tasks.next.ensembles.memory import BlendMemory
from ensue.tasks.next.model import Network, NextModel
from ensue.tasks.next.models.core import CORE
from ensue.tasks.next.settings import BlendSettings
from ensue.topk import Scores
from ensue.training.batches import evaluation_batches
from ensue.vocabulary import FIRST

AT = 20
"""Length of the list whose NDCG chooses the weight of co-occurring items."""
POWERS = tuple(2.0 ** (step / 4) for step in range(-2, 13))
"""Grid of a final factor on all weights: items beyond the candidates make probabilities too even."""
POWERED = 2_000
"""Approximate number of held-out targets on which that factor is chosen."""
TRIED = 20_000
"""Held-out targets, drawn at random, on which the numbers are chosen."""


def drawn(model: Network, valid: Histories, device: torch.device) -> list[tuple[Index, Batch]]:
    """Return a random sample of windows with about ``TRIED`` targets: positions of the target steps, and batches."""
    windows = Windows(valid, model.reach)
    batches = []
    num_targets = 0
    # A fixed seed: all weights are chosen on the same targets.
    order = np.random.default_rng(0).permutation(len(windows))
    for index in evaluation_batches(order, windows.stops - windows.target_starts, AT_ONCE):
        batches.append((windows.positions(index), windows.batch(index).to(device)))
        num_targets += batches[-1][1].num_targets
        if num_targets >= TRIED:
            break
    return batches


def mean_gain(model: Network, batches: list[tuple[Index, Batch]], hidden: Histories | None) -> float:
    """Return the mean NDCG of the targets; earlier items of ``hidden`` are no candidates."""
    ranks = []
    for positions, batch in batches:
        scores = model(batch).scores.cpu().numpy()
        if hidden is not None:
            hide_seen(scores, hidden, positions)
        ranks.append(metrics.ranks(scores, batch.targets.cpu().numpy()))
    return float(metrics.gain(np.concatenate(ranks), AT).mean())


def likeliest_power(model: Network, batches: list[tuple[Index, Batch]], hidden: Histories | None) -> float:
    """Return the factor among ``POWERS`` under which the targets are likeliest among all items."""
    sums = torch.zeros(len(POWERS))
    num_targets = 0
    for positions, batch in batches:
        scores = model(batch).scores.cpu()
        if hidden is not None:
            hide_seen(scores.numpy(), hidden, positions)
        target_scores = scores.gather(1, batch.targets.cpu()[:, None])[:, 0]
        # A hidden target has probability 0 under every factor.
        is_candidate = ~target_scores.isneginf()
        for column, power in enumerate(POWERS):
            # The logarithm of a softmax with scores multiplied by power.
            sums[column] += (power * target_scores - (power * scores).logsumexp(1))[is_candidate].sum()
        num_targets += batch.num_targets
        if num_targets >= POWERED:
            break
    return float(POWERS[int(sums.argmax())])


LIKELIHOOD_RATIO = 1.92
"""Nats by which the network must make the held-out targets likelier: half of the 95 % point of chi-square with one
degree of freedom (likelihood-ratio test, p < .05)."""
NEIGHBOUR_WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Grid of the weight of co-occurring items in a candidate's vector; extended if the last value is the best."""
MAX_NEIGHBOUR_WEIGHT = 100.0
"""Weight at which a candidate's own vector no longer matters."""
PRIOR = (0.2, 0.4, 0.2, 0.5, *(0.0 for _ in REPEATS))
"""Weights of network, neighbours, followers, interpolated counts and repeats without any held-out target; close to
those fitted on 2,000 sessions each of Diginetica, Yoochoose and Globo and on the sessions after them."""
SPREAD = 1.0
"""Standard deviation of the weights around ``PRIOR``."""
LOWEST = (0.02, 0.0, 0.0, 0.0, *(-torch.inf for _ in REPEATS))
"""Lower bounds of the weights in the order of ``PRIOR``: the network orders the items that no count covers."""
CANDIDATES = 50
"""Candidates that a target is compared with; more of them would give the first ranks less weight."""
MAX_COUNTS_OF_DATA = 2**27
"""Bytes of counts of held-out targets that are not computed again."""
MIN_TARGETS = 1_000
FOLDS = 5
"""With fewer held-out targets, weights of count-based parts are also fitted by cross-validation in ``FOLDS``."""


T = TypeVar("T")


class Blend(nn.Module):
    """CORE alongside VS-kNN and what followed what; see the module.

    Args:
        settings: of both.
        num_ids: size of the catalogue, padding and unknown included.
    """

    weighs_targets = True

    def __init__(self, settings: BlendSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        self.reach: int | None = max(2 * (settings.max_length - 1), settings.window - 1)
        self.network = CORE(settings, num_ids)
        self.memory = BlendMemory.empty(settings, num_ids)
        # The network alone, until the weights are chosen; in the order of PRIOR.
        self.part_weights: Tensor = nn.Buffer(torch.eye(len(PRIOR))[0])
        self.lean: Tensor = nn.Buffer(torch.zeros(1))
        self.beside: Tensor = nn.Buffer(torch.zeros(num_ids, settings.dim))
        self.idle = False
        self._leaning: tuple[Tensor, list[int], Tensor] | None = None
        self._target_counts: CountedTargets | None = None
        self._encoded: dict[int, tuple[Tensor, Tensor]] | None = None

    @property
    def members(self) -> dict[str, float]:
        """See :class:`ensue.tasks.next.model.Finishes`; of the session's own items, the weight of the latest."""
        # The weights of repeats come last, the latest event's first.
        names = ("core", "vsknn", "markov", "interpolated", "own-items")
        return dict(zip(names, self.part_weights.tolist(), strict=False))

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.loading.Validated`: no part speaks against what it knows."""
        require_number(f"{name}.lean", self.lean, LARGEST_COUNT)
        require_number(f"{name}.part_weights", self.part_weights, LARGEST_COUNT, -LARGEST_COUNT)
        require_number(f"{name}.part_weights", self.part_weights[: -len(REPEATS)], LARGEST_COUNT)

    def grow(self, num_ids: int) -> Blend:
        """Return this model resized for more items; a new item starts at random and is in no past session."""
        grown = Blend(self.settings, num_ids)
        grown.network = self.network.grow(num_ids)
        grown.memory = self.memory.grow(num_ids)
        grown.take(self)
        grown.beside[: len(self.beside)] = self.beside
        return grown

    def place(self, first: int) -> None:
        """Let the items from id ``first`` on start near what came lately."""
        self.network.place(first)

    def observe(self, ids: Tensor, times: Tensor) -> None:
        """Count a few events of a stream once they are learned; the memory gets whole sessions when they are over."""
        self.network.observe(ids, times)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the network."""
        return self.network.loss(batch)

    def table(self) -> Tensor:
        """(ids, dim + counts) the network's candidates, leaning; kept as long as the network keeps its own."""
        table = self.network.table()
        if not float(self.lean):
            return table
        # Versions of the buffers tell whether the cached table is still valid.
        state = [self.lean._version, self.beside._version, self.beside.data_ptr()]
        if self._leaning is None or self._leaning[0] is not table or self._leaning[1] != state:
            dim = self.settings.dim
            temperature = self.settings.temperature
            # Only the first dim columns are directions; the others are log counts of CORE and are not normalised.
            leaning = functional.normalize(table[:, :dim] * temperature + self.lean * self.beside, dim=1) / temperature
            self._leaning = table, state, torch.cat([leaning.T, table[:, dim:].T]).T
        return self._leaning[2]

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids), padding and unknown at -inf; weights (batch, time, time) of both parts."""
        scores, (weights,) = self.network_part(batch)
        for bias, cell, added, event_weights in self._contributions(batch):
            weights = weights if event_weights is None else weights + event_weights
            if bias is not None:
                scores.add_(bias)
            # A cell is row x ids + item, the position in (targets, ids) read row after row.
            scores.view(-1).index_add_(0, cell, added)
        return Output(scores, (weights / weights.sum(-1, keepdim=True).clamp(min=1e-30),))

    def network_part(self, batch: Batch) -> Output:
        """Scores and weights of the network, times its weight."""
        sessions, network_weights = self._encode(batch)
        network_weight = self.part_weights[0]
        weights = network_weights * network_weight
        if float(network_weight):
            return Output(self.network.compare(sessions, self.table()).mul_(network_weight), (weights,))
        scores = weights.new_zeros(sessions.shape[0], len(self.beside))
        scores[:, :FIRST] = -torch.inf
        return Output(scores, (weights,))

    def product(self, batch: Batch) -> Product:
        """Return the terms of :meth:`forward`: those common to all sessions as a bias, the others as cells."""
        sessions, network_weights = self.network.encode(batch)
        weights = network_weights * self.part_weights[0]
        bias = None
        cells = [torch.empty(0, dtype=torch.int64)]
        sums = [torch.empty(0)]
        for popular, cell, added, event_weights in self._contributions(batch):
            weights = weights if event_weights is None else weights + event_weights
            bias = bias if popular is None else popular
            cells, sums = [*cells, cell], [*sums, added]
        # Contributions to one cell are added up, so that each cell occurs once.
        unique_cells, index = torch.unique(torch.cat(cells), return_inverse=True)
        total = torch.zeros(len(unique_cells)).index_add_(0, index, torch.cat(sums))
        fractions = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
        vectors = self.part_weights[0] * self.network.with_prior(sessions)
        return Product(vectors, self.rows, bias, (fractions,), (unique_cells, total))

    def _contributions(self, batch: Batch) -> Iterator[tuple[Tensor | None, Tensor, Tensor, Tensor | None]]:
        """Yield the contributions of all parts but the network: to all ids, to cells, and the events' part in them."""
        weights = self.part_weights[1:].cpu().numpy()
        count = None if self._target_counts is None else self._target_counts.of(batch)
        max_length = self.settings.max_length
        for contribution in blend_counts.contributions(self.memory, weights, batch.arrays(), max_length, count):
            bias, cells, added, event_weights = (
                None if array is None else torch.from_numpy(array).to(batch.ids.device) for array in contribution
            )
            assert cells is not None and added is not None
            yield bias, cells, added, event_weights

    def rows(self, ids: Tensor | slice) -> Tensor:
        """(…, dim + counts) the network's candidates, leaning, of some ids."""
        rows = self.network.candidates(ids)
        vectors = rows[..., : self.settings.dim] * self.settings.temperature
        counts = rows[..., self.settings.dim :]
        # The sum is brought to length 1 again, as in `table`; the columns of counts stay as they are.
        mean_direction = functional.normalize(vectors + self.lean * rows_of(self.beside, ids), dim=-1)
        return torch.cat([mean_direction / self.settings.temperature, counts], dim=-1)

    def finish(self, learned: Histories, valid: Histories | None, earlier: NextModel | None) -> None:
        """Remember what the network was trained on, and choose the numbers.

        Args:
            learned: the training data.
            valid: what neither part has seen; ``None`` to take over the numbers of ``earlier``.
            earlier: the same model, trained on a part of the data.
        """
        self.memory = BlendMemory.empty(self.settings, len(self.beside))
        self.remember(learned)
        if valid is not None:
            self._choose(learned, valid, hide=not repeats(learned))
        elif isinstance(earlier, Blend):
            self.take(earlier)

    @torch.no_grad()
    def take(self, other: Blend) -> None:
        """Copy the weights of another blend."""
        self.part_weights.copy_(other.part_weights)
        self.lean.copy_(other.lean)

    @torch.no_grad()
    def remember(self, histories: Histories) -> None:
        """Add past sessions to the memory, and recompute the mean vectors of co-occurring items."""
        self.memory.count(histories)
        vectors = functional.normalize(self.network.items.rows(ALL_IDS), dim=1).cpu()
        self.beside.copy_(_neighbour_means(self.memory.sessions, vectors))

    def _encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return what the network encodes; while weights are chosen, of each batch once."""
        if self._encoded is None:
            return self.network.encode(batch)
        if id(batch) not in self._encoded:
            self._encoded[id(batch)] = self.network.encode(batch)
        return self._encoded[id(batch)]

    def _set(self, numbers: Tensor) -> None:
        """Set the weights of a conditional logit; those of parts are not negative."""
        self.part_weights.copy_(numbers.maximum(torch.tensor(LOWEST)))

    def _set_baselines(self, numbers: Tensor) -> None:
        """Set the weights of the count-based parts, without the network."""
        self._set(functional.pad(numbers, (1, 0)))
        self.part_weights[0] = 0.0

    @torch.no_grad()
    def _choose(self, learned: Histories, valid: Histories, *, hide: bool) -> None:
        """Choose the weight of co-occurring items, then all others; twice, for they decide who the candidates are."""
        self.eval()
        # To count takes longest. No number changes the counts, nor does the network, of which several are tried.
        target_counts = _COUNTS_OF_DATA.get(valid)
        key = ref(learned), self.settings, self.memory.num_ids, self.memory.sessions.num_sessions
        if target_counts is None or target_counts.key != key:
            target_counts = CountedTargets(self.memory, drawn(self, valid, self.part_weights.device), key)
            _COUNTS_OF_DATA[valid] = target_counts
        batches = target_counts.batches
        hidden = valid if hide else None
        self._target_counts = target_counts
        self._encoded = {}
        # The weight of co-occurring items is chosen with the network and the neighbours alone.
        self._set(torch.tensor([1.0, 1.0, *(0.0 for _ in PRIOR[2:])]))
        gains: dict[float, float] = {}
        grid = list(NEIGHBOUR_WEIGHTS)
        for neighbour_weight in grid:
            self.lean.fill_(neighbour_weight)
            gains[neighbour_weight] = mean_gain(self, batches, hidden)
            # The grid grows while its last weight is the best, so that the optimum is not cut off.
            best = max(gains, key=lambda weight: gains[weight])
            if neighbour_weight == grid[-1] == best < MAX_NEIGHBOUR_WEIGHT:
                grid.append(2 * neighbour_weight)
        self.lean.fill_(best)
        self._set(torch.tensor(PRIOR))
        for _ in range(2):
            features = self._features(batches, hidden)
            weights, loss = _fitted(features)
            self._set(weights)
        # A likelihood-ratio test decides whether the network adds anything to the counts.
        baseline_weights, baseline_loss = _fitted(features[..., 1:])
        self.idle = baseline_loss - loss < LIKELIHOOD_RATIO
        if self.idle:
            self._set_baselines(baseline_weights)
            if len(features) < MIN_TARGETS:
                features = torch.cat([features, *self._cross_fitted(learned, hide=hide)])
                self._set_baselines(_fitted(features[..., 1:])[0])
        # Candidates cover the whole of a small catalogue, whose probabilities need no correction.
        power = likeliest_power(self, batches, hidden) if len(self.beside) - FIRST > CANDIDATES else 1.0
        self.part_weights.mul_(power)
        self._target_counts = self._encoded = None

    def _cross_fitted(self, learned: Histories, *, hide: bool) -> Iterator[Tensor]:
        """Yield the features of the targets in each of ``FOLDS`` folds, from counts of all others."""
        # Sessions are dealt out in turn, so that every fold covers the whole time range.
        fold = np.arange(len(learned)) % FOLDS
        for number in range(FOLDS):
            blend = Blend(self.settings, len(self.beside)).eval()
            blend.take(self)
            blend.memory.count(learned.select(fold != number))
            held_out = learned.select(fold == number)
            # Items that only the held-out fold has cannot be predicted from counts.
            held_out = held_out.keep(blend.memory.sessions.totals[held_out.ids] > 0)
            yield blend._features(drawn(blend, held_out, torch.device("cpu")), held_out if hide else None)

    def _features(self, batches: list[tuple[Index, Batch]], hidden: Histories | None) -> Tensor:
        """(targets, 1 + candidates, parts) what each part knows of a target and of the highest others.

        Of the targets those that are among the highest themselves; NaN where there are fewer others.
        """
        chunks = [torch.zeros(0, 1 + CANDIDATES, len(PRIOR))]
        for positions, batch in batches:
            scores = self(batch).scores.cpu()
            targets = batch.targets.cpu()[:, None]
            if hidden is not None:
                hide_seen(scores.numpy(), hidden, positions)
            target_scores = scores.gather(1, targets)
            # The target is removed first: the highest others are its competitors.
            high, top = scores.scatter_(1, targets, -torch.inf).topk(min(CANDIDATES, scores.shape[1]), dim=1)
            is_ranked = ~target_scores.isneginf()[:, 0] & (target_scores >= high[:, -1:])[:, 0]
            features = self._part_scores(batch, torch.cat([targets, top], 1))
            features[:, 1:][high.isneginf()] = torch.nan
            # Small catalogues have fewer candidates than columns; NaN marks the padding.
            spare = CANDIDATES - high.shape[1]
            chunks.append(functional.pad(features, (0, 0, 0, spare), value=torch.nan)[is_ranked])
        return torch.cat(chunks)

    def _part_scores(self, batch: Batch, candidate_ids: Tensor) -> Tensor:
        """(targets, candidates, parts) what each part knows of some candidates, (targets, candidates) ids."""
        sessions, _ = self._encode(batch)
        network = self.network.compare(sessions, self.table()).cpu()
        kinds = torch.zeros(network.shape, dtype=torch.int64)
        arrays = batch.arrays()
        cells, classes = blend_counts.repeated(arrays, self.memory.num_ids, self.settings.max_length)
        kinds.view(-1)[torch.from_numpy(cells)] = torch.from_numpy(1 + classes)
        features = [network.gather(1, candidate_ids)]
        count = (self._target_counts or CountedTargets(self.memory, [])).of(batch)
        popular, interpolated_cells, interpolated, _ = count(blend_counts.interpolated)
        contributions: list[tuple[Index, Scores]] = [count(blend_counts.recalled)[:2], count(blend_counts.followed)]
        for cells, added in (*contributions, (interpolated_cells, interpolated)):
            # Sparse contributions are scattered into a full (targets, ids) table, from which candidates are gathered.
            dense = torch.zeros(network.numel()).index_add_(0, torch.from_numpy(cells), torch.from_numpy(added))
            features.append(dense.view_as(network).gather(1, candidate_ids))
        features[-1] += torch.from_numpy(popular)[candidate_ids]
        # Class 0 is an item that the session does not hold; it has no weight of its own.
        repeat_classes = functional.one_hot(kinds.gather(1, candidate_ids), 1 + len(REPEATS))[..., 1:]
        return torch.cat([torch.stack(features, dim=2), repeat_classes.float()], dim=2)


class CountedTargets:
    """Held-out targets, and what the counts of training data know of them, each computed once while there is room.

    Args:
        memory: the counts of the training data.
        batches: of the targets.
        key: what the counts depend on.
    """

    def __init__(self, memory: BlendMemory, batches: list[tuple[Index, Batch]], key: object = None) -> None:
        self.memory = memory
        self.batches = batches
        self.key = key
        self.results: dict[tuple[str, int], object] = {}
        self.size = 0

    def of(self, batch: Batch) -> blend_counts.Count:
        """Return the function that counts for a batch."""

        def count(function: Callable[[BlendMemory, PaddedBatch], T]) -> T:
            key = function.__name__, id(batch)
            if key in self.results:
                return cast(T, self.results[key])
            result = function(self.memory, batch.arrays())
            size = sum(array.nbytes for array in cast("tuple[Scores, ...]", result))
            if self.size + size <= MAX_COUNTS_OF_DATA:
                self.size += size
                self.results[key] = result
            return result

        return count


_COUNTS_OF_DATA: WeakKeyDictionary[Histories, CountedTargets] = WeakKeyDictionary()
"""By the validation data, which lives as long as one training."""


def _neighbour_means(past: VSKNN, vectors: Tensor) -> Tensor:
    """Return the mean vector of the other items of each item's past sessions, (ids, dim); 0 where there are none.

    Args:
        past: the sessions.
        vectors: (ids, dim) of all items.
    """
    items = torch.from_numpy(past.items).long()
    owner = torch.from_numpy(past.sessions_of_entries())
    lengths = torch.from_numpy(np.diff(past.starts))
    # The sum over each session, then over the sessions of each item, which leaves the item itself out.
    sessions = torch.zeros(len(lengths), vectors.shape[1]).index_add_(0, owner, vectors[items])
    sums = torch.zeros_like(vectors).index_add_(0, items, sessions[owner] - vectors[items])
    counts = torch.zeros(len(vectors)).index_add_(0, items, lengths[owner] - 1.0)
    return sums / counts.clamp(min=1)[:, None]


def _fitted(features: Tensor) -> tuple[Tensor, float]:
    """Return the most likely weights, (parts,), and their loss in nats.

    Args:
        features: (targets, candidates, parts), of all parts or of the last ones; the first candidate of each target is
            the true one, and NaN marks padding.
    """
    values = features.double().numpy()
    padding = np.isnan(values[:, :, 0])
    true = np.zeros(padding.shape, np.bool_)
    # The first candidate of each row is the target.
    true[:, 0] = True
    candidates = Candidates(np.nan_to_num(values), true, np.where(padding, -np.inf, 0.0))
    # Without the network the features, and so the prior means, are the last ones.
    mean = np.array(PRIOR[-values.shape[2] :])
    weights = fit_weights([candidates], mean, np.full(len(mean), SPREAD**-2))
    return torch.from_numpy(weights).float(), float(candidates.losses(weights).sum())
