"""The life of a stream: read, predict, score, learn, commit.

Each batch is predicted and scored before it is learned. Then its fresh events are learned once, a share of remembered
sessions among them, in small steps; sessions that ended join the reservoir and the counts.

A commit replaces the model folder at once, and the folder holds everything: weights, the position in the source, open
sessions, figures. So after a kill at any moment the folder that stands is a whole one, and reading goes on where its
weights stopped: every event counts once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ensue.data.histories import Histories, Index
from ensue.errors import DataError
from ensue.store.folder import write_folder
from ensue.store.swap import sweep
from ensue.stream import saved
from ensue.stream.blocks import Block, Source
from ensue.stream.board import HOUR, Hour
from ensue.stream.events import Reader
from ensue.stream.journal import Changes, Journal, large_by_rows
from ensue.stream.ranking import FixedModel, LiveModel
from ensue.stream.sessions import SortedEvents, joined, targets
from ensue.stream.state import StreamState, no_histories
from ensue.stream.status import Status, StreamSettings
from ensue.tasks.next import reservoir, update
from ensue.tasks.next.model import Remembers
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.state import module_of

COUNTED = 65_536
"""Events of ended sessions that are put into the reservoir and the counts together."""
GROWN = 1.0
"""The folder is written whole once the journal is so many times as large as weights and moments."""
HEAVY = 2**27
"""A commit does not wait longer once it would write so many bytes of rows."""
DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, and can be compared with the machine's clock."""


class Stream(StreamState):
    """A model folder that learns from a source. The caller holds the folder's lock (:mod:`ensue.store.lock`).

    Args:
        folder: a model folder; where it was streaming, it goes on from there.
        source: what to read.
        settings: how.
        columns: roles to fields, where stated.
        unit: of the times, where stated.
        anew: forget the position and the figures, keep what was learned.

    Raises:
        ModelFolderError: the folder is none, or damaged.
        SettingError: the folder learns from another source.
        DataError: the source is not there, or not what was read before.
    """

    def __init__(
        self,
        folder: Path,
        source: Source,
        settings: StreamSettings,
        *,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        anew: bool = False,
    ) -> None:
        predictor = NextPredictor.load(folder)
        sweep(folder)
        reader = Reader(source.name, columns, unit)
        commit, self._journal = saved.read_state(folder), Journal(folder)
        begins = anew or commit is None
        entries = [] if begins else self._journal.read()
        rejected = entries[-1].state["rejects"] if entries else commit["rejects"] if commit else 0
        super().__init__(folder, source, settings, predictor, reader, begins=begins, rejected=rejected)
        self._busy, self._done, self._dirty, self._live = 0.0, 0, False, False
        if commit is not None and not begins:
            saved.restore(self, commit)
        for entry in entries:
            saved.replay(self, entry)
        self._whole, self._seen, self._counted = begins, list[saved.Seen](), list[Histories]()
        self._changes = self._tracked()
        source.begin(self.position)

    def run(
        self, *, follow: bool = True, until: int | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[Status]:
        """Read, learn and commit until told to stop; a status a commit.

        Args:
            follow: wait for more at the end of the source.
            until: stop once so many events were counted, over all restarts.
            stopped: called between batches.

        Raises:
            DataError: the source is no longer what was read so far; all before that is committed.
            ModelFolderError: the folder cannot be written; the last commit stands.
        """
        committed = time.monotonic()
        while not stopped() and (until is None or self.counts.events < until):
            limit = min(self.settings.batch, self.settings.batch if until is None else until - self.counts.events)
            try:
                block = self.source.read(limit, self.settings.wait if follow else 0.0)
            except DataError:
                self.commit()
                raise
            self._live = follow and block.at_end
            if block.lines:
                self.step(block, stopped)
            elif block.at_end and not follow:
                break
            heavy = self._changes is not None and self._changes.bytes >= HEAVY
            if self._dirty and (heavy or time.monotonic() - committed >= self.settings.every):
                yield self.commit()
                committed = time.monotonic()
        yield self.commit(over=True)

    def step(self, block: Block, stopped: Callable[[], bool] = lambda: False) -> None:
        """Predict, score and learn one block of lines."""
        begun = time.perf_counter()
        events, rejects = self.reader.read(block.lines, block.places)
        for number, reason in rejects:
            self.rejects.add(block.lines[number], block.places[number], reason)
        vocabulary = self.predictor.vocabulary
        old = len(vocabulary)
        new = {
            value: old + at for at, value in enumerate(dict.fromkeys(v for v in events.values if v not in vocabulary))
        }
        sessions = self.sessions.of(block.partition)
        taken = sessions.take(events, [new[v] if v in new else vocabulary.id(v) for v in events.values])
        scored, context = taken.scored.histories(vocabulary)
        self._score(scored, context, old, taken, sessions.clock)
        self.predictor.add_values(new)
        self._learn(scored, context, taken)
        seen = saved.Seen(np.array(taken.ids, np.int32), np.array(taken.times, np.float64), sessions.clock)
        self.predictor.observe(seen.ids, seen.times)
        if self._changes is not None:
            self._seen.append(seen)
        self.counts.lines += len(block.lines)
        self.counts.events += len(taken.ids)
        self.counts.late += taken.num_late
        self.counts.repeated += taken.num_repeated
        self.counts.rejected += len(rejects)
        self.counts.sessions += taken.num_opened
        self.counts.new_values += len(new)
        self.position, self._dirty = block.position, True
        self._done += len(taken.ids)
        self._busy += time.perf_counter() - begun
        if self.nightly is not None and len(taken.ids):
            self.nightly.pass_time(self.sessions.settled, stopped)

    def _score(self, scored: Histories, context: Index, num_ids: int, taken: SortedEvents, clock: float) -> None:
        """Ask everyone, then let recent popularity see the batch."""
        ids, times = np.array(taken.ids, np.int32), np.array(taken.times, np.float64)
        if self.settings.score < 1:
            chosen = taken.scored.drawn(self.settings.score)
            scored, context = scored.select(chosen), context[chosen]
        places = targets(scored, context)
        ranks = {}
        if len(places):
            hide = not self.predictor.metadata.repeats
            everyone: dict[str, LiveModel | FixedModel] = {"model": self.live, **self.fixed}
            if self.nightly is not None:
                everyone["nightly"] = self.nightly.model
            ranks = {name: one.ranks(scored, context, num_ids) for name, one in everyone.items()}
            ranks |= {one.name: one.ranks(scored, context, num_ids, hide=hide) for one in self.popular}
        self.board.add(times, scored.times[places], ranks)
        self.counts.targets += len(places)
        for one in self.popular:
            one.see(ids, times, clock)

    def _learn(self, scored: Histories, context: Index, taken: SortedEvents) -> None:
        vocabulary = self.predictor.vocabulary
        parts = [(scored, context), taken.late.histories(vocabulary)]
        num = len(scored) + len(taken.late.lengths)
        share = self.settings.replay
        if num and share:
            drawn = self.predictor.reservoir.draw(round(num * share / (1 - share)), self.counts.lines)
            parts.append((drawn, np.zeros(len(drawn), np.int64)))
        if num:
            histories, held = joined(parts)
            histories = self._timed(histories)
            order = np.random.default_rng([self.predictor.seed, self.counts.lines]).permutation(len(histories))
            for low in range(0, len(order), self.settings.step):
                index = order[low : low + self.settings.step]
                self.predictor.learn(histories.select(index), held[index])
        closed, _ = taken.closed.histories(vocabulary)
        if len(closed):
            self.ended = reservoir.joined(self.ended, closed)
            if self.nightly is not None:
                self.nightly.see(closed)
        if len(self.ended.ids) >= COUNTED:
            self._count()

    def _count(self) -> None:
        """Add the sessions that have ended to the counts, and let the memory take its share."""
        ended = self._timed(self.ended)
        self.predictor.reservoir.add(ended)
        update.count(self.predictor, ended)
        self.ended = no_histories(self.predictor)
        self._counted.append(ended)
        # what a blend remembers it compares by the vectors of this moment, which no later commit knows
        self._whole = self._whole or isinstance(self.predictor.network, Remembers)

    def _tracked(self) -> Changes | None:
        """What notes the rows that are moved, where commits go to the journal; ``None`` where each is the folder."""
        module, learns = module_of(self.predictor.network), self.predictor.schedule is not None
        if not learns or self.nightly is not None or not large_by_rows(module, self.settings.journal):
            return None
        return Changes(self.predictor)

    def _timed(self, histories: Histories) -> Histories:
        """Without times, where the model was fitted without."""
        if self.predictor.metadata.timed:
            return histories
        return Histories(histories.ids, histories.offsets, histories.vocabulary)

    def commit(self, *, over: bool = False) -> Status:
        """Make everything so far safe, all at once.

        Raises:
            ModelFolderError: the folder cannot be written; the last commit stands.
        """
        begun = time.perf_counter()
        closed = self._closed()
        if self._dirty or (over and self._journal.size):
            if len(self.ended) and not self.predictor.keeps_histories:
                self._count()  # nothing of a session that is over stays
            self.rejects.flush()
            self._write(over)
            assert self.position is not None
            self.source.committed(self.position)
            if self.nightly is not None:
                self.nightly.committed()
        self._dirty = False
        self._busy += time.perf_counter() - begun
        rate = self._done / self._busy if self._busy else 0.0
        lag = time.time() - self.sessions.clock if self._live and self.sessions.clock > DATED else None
        return Status(self.counts, closed, self.board, len(self.sessions), rate, self.source.behind(), lag, over)

    def _write(self, over: bool) -> None:
        """Append what changed to the journal; the folder where much of it has, where a stream begins and at its end."""
        model = 3 * sum(parameter.nbytes for parameter in self.predictor.network.parameters())
        full = over or self._whole or self._journal.size > GROWN * model
        if self._changes is not None and not full:
            self._journal.append(saved.entry_of(self, *self._changes.take(), self._seen, self._counted))
        else:
            write_folder(self.folder, saved.files(self))
            self._journal.restart()
            self._changes = self._tracked()
            self._whole = False
        self._seen, self._counted = [], []

    def _closed(self) -> list[Hour]:
        """Hours that ended since the last commit."""
        clock = self.sessions.settled
        now = clock // HOUR if np.isfinite(clock) else self.reported_hour
        closed = [row for row in self.board.rows() if self.reported_hour < row.hour < now]
        self.reported_hour = max([self.reported_hour, *(row.hour for row in closed)])
        return closed
