"""The life of a stream: read, predict, score, learn, commit.

Events are gathered to chunks. A chunk is complete after 512 events that count, or once the stream's clock enters
another quarter of an hour: repeats, rejected lines, the blocks that the source gives, commits and restarts do not
change where it ends, so they change no metric either. It is predicted and scored before it is learned. Then its fresh
events are learned once, a share of remembered sessions among them, in small steps; sessions that ended join the
reservoir and the counts.

A commit replaces the model folder at once, and the folder holds everything: weights, the position in the source, open
sessions, events of a chunk that is not complete, metrics. So after a kill at any moment the folder is a whole one, and
reading goes on where it stopped: every event counts once. A stream that ends learns its last chunk early, and keeps the
folder from before it beside; it goes on from there, so that the end of a run is no end of a chunk either.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ensue.data.clock import SINCE_1970
from ensue.data.histories import Histories, Index, concat_histories, ranges
from ensue.errors import DataError, SettingError
from ensue.lazy import lazy
from ensue.learning.state import module_of
from ensue.store.folder import schema_of, write_folder
from ensue.store.swap import sweep
from ensue.stream import commit as saved
from ensue.stream.commit import Journal
from ensue.stream.events import EventReader
from ensue.stream.metrics import HOUR, Hour, model_ranks
from ensue.stream.sessions import Chunk, Seen, joined, targets
from ensue.stream.sources import LineBlock, StreamSource
from ensue.stream.state import StreamSettings, StreamState, StreamStatus, no_histories
from ensue.tasks.next import update
from ensue.tasks.next.model import Remembers
from ensue.tasks.next.predictor import NextPredictor

if TYPE_CHECKING:  # needs torch
    from ensue.stream import changes
else:
    changes = lazy("ensue.stream.changes")

CHUNK = 512
"""Events that are scored by one model and then learned together, at most."""
PERIOD = 900.0
"""Seconds of the stream's clock after which a chunk is complete with fewer events."""
COUNT_EVERY = 65_536
"""Events of ended sessions that are put into the reservoir and the counts together."""
GROWN = 1.0
"""The folder is written whole once the journal is so many times as large as weights and moments."""
HEAVY = 2**27
"""A commit does not wait longer once it would write so many bytes of rows."""


class Stream(StreamState):
    """A model folder that learns from a source. The caller holds the folder's lock (:mod:`ensue.store.swap`).

    Args:
        folder: a model folder; where it was streaming, it goes on from there.
        source: what to read.
        settings: how.
        columns: roles to fields, where stated.
        events: the event types that are read, such as ``view,cart``. [default: those that the model was fitted on]
        unit: of the times, where stated.
        restart: forget the position and the figures, keep what was learned.

    Raises:
        ModelFolderError: the folder is none, or damaged.
        SettingError: the folder learns from another source.
        DataError: the source is not there, or not what was read before.
    """

    def __init__(
        self,
        folder: Path,
        source: StreamSource,
        settings: StreamSettings,
        *,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        events: str = "",
        restart: bool = False,
    ) -> None:
        # Copies that killed processes left.
        sweep(folder)
        resume_folder, commit = saved.begin_of(folder)
        predictor = NextPredictor.load(folder if restart else resume_folder)
        predictor.require_trainable()
        if (min_users := predictor.shared.min_users) > 1:
            raise SettingError(
                f"{folder}: was fitted with --min-users {min_users}, and a stream trains on each session before it is "
                f"known whether {min_users} people share it; use `ensue update` on whole logs"
            )
        reader = EventReader(source.name, columns, unit, schema=schema_of(folder), events=events)
        self._journal = Journal(folder)
        begins = restart or commit is None
        # All of them are checked before the first one is replayed.
        entries = [] if begins else [changes.changed_in(entry, folder) for entry in self._journal.read()]
        latest = entries[-1].commit if entries else commit
        rejected = 0 if latest is None else latest.rejects
        super().__init__(folder, source, settings, predictor, reader, rejected=rejected)
        self._busy = 0.0
        self._done = 0
        self._dirty = False
        self._live = False
        if commit is not None and not begins:
            saved.restore(self, commit)
        for changed in entries:
            changes.replay(self, changed)
        self._early = resume_folder != folder  # the folder has learned the chunk that is not complete here
        self._full = begins or self._early
        self._seen, self._added = list[Seen](), list[Histories]()
        self._changes = self._tracked()
        source.begin(self.position)

    def run(
        self, *, follow: bool = True, until: int | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[StreamStatus]:
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
            # Lines may be rejected, so fewer events come of them; never more than asked for.
            limit = min(self.settings.batch, self.settings.batch if until is None else until - self.counts.events)
            try:
                block = self.source.read(limit, self.settings.wait if follow else 0.0)
            except DataError:
                self.commit()
                raise
            # At the end of a source that goes on, the latest event is about now.
            self._live = follow and block.at_end
            if block.lines:
                self.step(block)
            elif block.at_end and not follow:
                break
            heavy = self._changes is not None and self._changes.bytes >= HEAVY
            if self._dirty and (heavy or time.monotonic() - committed >= self.settings.commit_interval):
                yield self.commit()
                committed = time.monotonic()
        yield self.commit(over=True)

    def step(self, block: LineBlock) -> None:
        """Take a block of lines; each chunk that it completes is predicted, scored and learned."""
        started = time.perf_counter()
        events, rejects = self.reader.read(block.lines, block.locations)
        for number, reason in rejects:
            self.rejects.add(block.lines[number], block.locations[number], reason)
        sessions = self.sessions.of(block.partition)
        former_events = self.counts.events
        for session, value, seconds, mark, number in events.rows():
            sessions.add(session, value, seconds, mark, block.locations[number], self.chunk)
            # Both depend on the events alone, so a chunk ends at the same event however the stream was cut.
            if len(self.chunk) >= CHUNK or self._is_next_period():
                self._learn_chunk()
        self._count_arrivals()
        self.counts.lines += len(block.lines)
        self.counts.rejected += len(rejects)
        self.position = block.position
        self._dirty = True
        self._done += self.counts.events - former_events
        self._busy += time.perf_counter() - started

    def _is_next_period(self) -> bool:
        """Return whether the clock has entered a later period than ever before, in which the next chunk begins."""
        clock = self.sessions.clock
        former = self.period
        if not np.isfinite(clock):
            return False
        period = int(clock // PERIOD)
        # The clock is a median and may move back.
        self.period = period if former is None else max(former, period)
        return former is not None and former < period

    def _count_arrivals(self) -> None:
        """Add what became of the events that have come to the counts, and write down those that were rejected."""
        chunk = self.chunk
        self.counts.events = self.counts.learned + len(chunk)
        self.counts.late += chunk.num_late
        self.counts.repeated += chunk.num_repeated
        self.counts.sessions += chunk.num_opened
        self.counts.rejected += len(chunk.rejections)
        for event, reason in chunk.rejections:
            line = json.dumps({"item": event.value, "time": event.time})
            self.rejects.add(line.encode(), event.location, reason)
        chunk.num_late = chunk.num_repeated = chunk.num_opened = 0
        chunk.rejections.clear()

    def _learn_chunk(self) -> None:
        """Predict, score and learn the events that were gathered; the next chunk begins."""
        chunk = self.chunk
        self._count_arrivals()
        self.sessions.hand_over(chunk)
        scored, context = chunk.scored.histories(self.predictor.vocabulary)
        events = chunk.seen()
        # Before anything is learned from them: each event is predicted by a model that has not seen it.
        self._score(chunk, scored, context, events)
        self.predictor.add_values(chunk.new_values)
        self.counts.learned = self.counts.events
        self.counts.new_values += len(chunk.new_values)
        self._learn(scored, context, chunk)
        self.predictor.observe(events.ids, events.times)
        if self._changes is not None:
            self._seen.append(events)
        self.chunk = Chunk.of(self.predictor.vocabulary)

    def _score(self, chunk: Chunk, scored: Histories, context: Index, events: Seen) -> None:
        """Rank each fresh event that follows something, and count all events in the baselines."""
        # -1: context, which is not ranked here.
        arrivals = np.full(len(scored.ids), -1)
        arrivals[ranges(scored.offsets[:-1] + context, scored.lengths - context)] = chunk.scored.arrivals
        if self.settings.score < 1:
            sample = chunk.scored.sample(self.settings.score)
            arrivals = arrivals[ranges(scored.offsets[:-1][sample], scored.lengths[sample])]
            scored = scored.select(sample)
            context = context[sample]
        rows = targets(scored, context)
        num_ids = len(chunk.vocabulary)
        ranks = {}
        if len(rows):
            ranks["model"] = model_ranks(self.predictor, scored, context, num_ids)
        # a target's ranking leaves out what its session holds, where the data never repeats a value
        # Empty ranges where values repeat, else from the beginning of the session to the target.
        starts = rows if self.predictor.metadata.repeats else scored.offsets[:-1][scored.sequence_index()[rows]]
        excluded = [scored.ids[start:position] for start, position in zip(starts, rows, strict=True)]
        ranks |= self.baselines.ranks(events, num_ids, arrivals[rows], excluded)
        self.board.add(events.times, scored.times[rows], ranks)
        self.counts.targets += len(rows)

    def _learn(self, scored: Histories, context: Index, chunk: Chunk) -> None:
        vocabulary = self.predictor.vocabulary
        groups = [(scored, context), chunk.late.histories(vocabulary)]
        num = len(scored) + len(chunk.late.lengths)
        share = self.settings.replay
        if num and share:
            # r replayed of n + r sessions are a share s where r = n s / (1 - s).
            replayed = self.predictor.reservoir.draw(round(num * share / (1 - share)), self.counts.learned)
            groups.append((replayed, np.zeros(len(replayed), np.int64)))
        if num:
            histories, num_context = joined(groups)
            histories = self._timed(histories)
            # Seeded by the number of learned events: a restart draws the same order.
            order = np.random.default_rng([self.predictor.seed, self.counts.learned]).permutation(len(histories))
            for low in range(0, len(order), self.settings.step):
                index = order[low : low + self.settings.step]
                self.predictor.learn(histories.select(index), num_context[index])
        closed, _ = chunk.closed.histories(vocabulary)
        if len(closed):
            self.ended = concat_histories(self.ended, closed)
        # Counting rebuilds tables, so that many sessions are counted together.
        if len(self.ended.ids) >= COUNT_EVERY:
            self._count()

    def _count(self) -> None:
        """Add the sessions that have ended to the counts, and let the memory take its share."""
        ended = self._timed(self.ended)
        self.predictor.reservoir.add(ended)
        update.count(self.predictor, ended)
        self.ended = no_histories(self.predictor)
        self._added.append(ended)
        # what a blend remembers it compares by the vectors of this moment, which no later commit knows
        self._full = self._full or isinstance(self.predictor.network, Remembers)

    def _tracked(self) -> changes.Changes | None:
        """Return the tracker of updated rows; ``None`` where each commit writes the folder."""
        if self.predictor.schedule is None:
            return None
        if not changes.large_by_rows(module_of(self.predictor.network), self.settings.journal):
            return None
        return changes.Changes(self.predictor)

    def _timed(self, histories: Histories) -> Histories:
        """Return histories without times, where the model was fitted without."""
        if self.predictor.metadata.timed:
            return histories
        return Histories(histories.ids, histories.offsets, histories.vocabulary)

    def commit(self, *, over: bool = False) -> StreamStatus:
        """Commit everything so far, atomically.

        Raises:
            ModelFolderError: the folder cannot be written; the last commit stands.
        """
        started = time.perf_counter()
        if len(self.chunk) and not self.predictor.keeps_histories:
            self._learn_chunk()  # nothing of a session that is over stays, in no chunk either
        closed = self._closed()
        unlearned = bool(len(self.chunk) or self.sessions.is_waiting) and not self._early
        if self._dirty or (over and (self._journal.size or unlearned)):
            # Weights and position together, or neither.
            self._write(over)
            assert self.position is not None
            # Only now, when the commit is on the disk, may the source forget.
            self.source.committed(self.position)
        elif over:
            self._learn_rest()
        self._dirty = False
        self._busy += time.perf_counter() - started
        rate = self._done / self._busy if self._busy else 0.0
        lag = time.time() - self.sessions.clock if self._live and self.sessions.clock > SINCE_1970 else None
        behind = self.source.behind()
        return StreamStatus(self.counts, closed, self.board, len(self.sessions), rate, behind, self.rejects, lag, over)

    def _learn_rest(self) -> None:
        """Decide about the events that wait, and learn the last chunk early."""
        self.sessions.settle(self.chunk)
        self._count_arrivals()
        if len(self.chunk):
            self._learn_chunk()
        self._count_rest()
        self.rejects.flush()

    def _count_rest(self) -> None:
        """Count sessions that are over where they must not wait for more: a model that keeps no histories."""
        if len(self.ended) and not self.predictor.keeps_histories:
            self._count()

    @property
    def _model_size(self) -> int:
        """Bytes of the weights and moments of the network."""
        return 3 * sum(parameter.nbytes for parameter in module_of(self.predictor.network).parameters())

    def _write(self, over: bool) -> None:
        """Append what changed to the journal; the folder where much of it has, where a stream begins and at its end."""
        self._count_rest()
        self.rejects.flush()
        self._early = over
        if over and (len(self.chunk) or self.sessions.is_waiting):
            saved.write_end(self, self._learn_rest)
        elif self._changes is not None and not (over or self._full or self._journal.size > GROWN * self._model_size):
            self._journal.append(changes.entry_of(self, *self._changes.take(), self._seen, self._added))
            self._seen, self._added = [], []
            return
        else:
            write_folder(self.folder, saved.files(self))
        saved.remove_former(self.folder, self.counts.lines)
        self._journal.restart()
        self._changes = self._tracked()
        self._full = False
        self._seen, self._added = [], []

    def _closed(self) -> list[Hour]:
        """Hours that ended since the last commit."""
        clock = self.sessions.settled
        # Hours before the slowest partition's clock get no more events, except late ones.
        now = clock // HOUR if np.isfinite(clock) else self.reported_hour
        closed = [row for row in self.board.rows() if self.reported_hour < row.hour < now]
        self.reported_hour = max([self.reported_hour, *(row.hour for row in closed)])
        return closed
