"""The predictor of task ``suggest``: the queries of a session in, the next ones out, none that too few people typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ensue.answers import Answer, QueryExplanation
from ensue.arguments import require_records
from ensue.data.histories import Histories, Ids, Mask
from ensue.data.queries import Queries, require_pairs
from ensue.data.queries.tokens import QueryTokenizer
from ensue.errors import DataError, SettingError
from ensue.learning import life
from ensue.learning.life import NO_TRAINING, train_update
from ensue.learning.state import require_trained
from ensue.nn.validation import require_table
from ensue.records import History
from ensue.store.pack import NETWORK, read_tensors
from ensue.tasks.suggest import explain, infer, train
from ensue.tasks.suggest.baselines.counting import Suggestions, added
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.table import Crowd
from ensue.tasks.suggest.candidates import MIXED
from ensue.tasks.suggest.catalogue import MODELS as CATALOGUE
from ensue.tasks.suggest.onnx_network import OnnxGenerator
from ensue.tasks.suggest.privacy import Floor, bounded, people_of, prints, shared_steps
from ensue.tasks.suggest.state import SuggestState
from ensue.tasks.suggest.train import note_cuts
from ensue.text.encoder import Vectors
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report


@dataclass
class FittedSuggester:
    """Contents of a suggester's folder, without the weights of the network.

    Attributes:
        floor: what may be shown.
        tokenizer: cuts queries into tokens.
        retrieval: the counts.
        train_prints: (distinct pairs of queries,) their hashes.
    """

    floor: Floor
    tokenizer: QueryTokenizer
    retrieval: Retrieval
    train_prints: Ids

    def __post_init__(self) -> None:
        """Check the shape of the hashes.

        Raises:
            ValueError: it is another.
        """
        require_table("train_prints", self.train_prints, np.int32, [None])


class SuggestPredictor(SuggestState):
    """Says which query comes next in a session, and completes what is being typed.

    See :class:`SuggestState` for its arguments.
    """

    data_type = Queries
    fitted = FittedSuggester

    def fit(
        self, data: Queries, valid: Queries | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Training stops by the loss on validation sessions: the rank of the true next query would cost a search for each
        at every check, and most of them no model can rank. Without ``valid`` these are the file's own, or the sessions
        that begin last: a tenth, and of a small log up to a third. Unless ``refit`` is off, all of it is learned in the
        end, and so is ``valid`` where it is later and neither log knows users: people in both would count twice.

        Where a counting model ranks them higher than the network mixed with it, the predictor becomes that model.

        Args:
            data: sessions; of a file with parts, those of ``train`` are learned.
            valid: what is looked at in place of held-out sessions.
            checkpoint: a file that lets a killed run continue.
            resume: continue from there.

        Raises:
            DataError: no session of two queries, or nothing that enough people typed.
            SettingError: the loss is no longer a number, or another run's checkpoint.
        """
        self.require_data(data, valid)
        return life.fit(train, self, data, valid, Checkpoint(checkpoint, resume))

    def update(self, data: Queries) -> Report:
        """Learn new sessions on top of what is known, in one pass.

        Counts, the index and the floor grow; what is typed by enough users of the new log may be shown from now on.
        Of queries below the floor nothing was kept, so their counts do not add up over updates. With ``tokens=words`` a
        new word stays unknown to the network; with ``bpe`` there is none.

        Raises:
            DataError: no session of two queries, or sessions without users where the floor counts users.
        """
        self.require_data(data)
        require_trained(self.model)
        require_pairs(data, "new data")
        data = bounded(data, self.shared.min_users)
        new = Floor.of(data, self.shared.min_users)
        if (self.floor.counted, new.counted) == ("users", "sessions"):
            raise DataError(
                "new data: the log has no users, which the k-anonymity threshold of this model counts, so sessions of "
                "one person could count as many; name the user's column with --columns user=…"
            )
        self.floor = floor = _joined(self.floor, new)
        histories = data.histories
        values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
        crowd = Crowd(people_of(data), self.shared.min_users) if self.shared.min_users > 1 else None
        counts = Retrieval.fit(histories, floor.kept(values), floor.words, crowd)
        former = require_trained(self.retrieval)
        self.retrieval = former.with_(counts, added(former.following, counts.following))
        # Rules depend on the threshold, so the next answer makes them again.
        self.rules = None
        steps = shared_steps(data, floor)
        # Old and new pairs, each once and sorted.
        self.train_prints = np.union1d(self.train_prints, prints(steps))
        metadata = self.metadata
        metadata.updates += 1
        metadata.sessions += len(data)
        metadata.queries += len(histories.ids)
        if self.schedule is None or self.optimizer is None:
            self.model = self.retrieval
            return NO_TRAINING
        windows = self.windows(steps)
        if not len(windows):
            return NO_TRAINING
        note_cuts(self, windows)
        *_, report = train_update(self, windows)
        return report

    def predict(
        self, records: Sequence[History], k: int = 10, *, evidence: bool = True, prefix: str | Sequence[str] = ""
    ) -> list[Answer]:
        """The ``k`` likeliest next queries of each session, with the earlier queries they leaned on.

        A score is a suggestion's share among all that were considered for this answer, written or looked up. A session
        without queries gets those that are typed most. Fewer than ``k`` come where the floor lets no more pass.

        Args:
            records: sessions; their values are the queries typed so far, in any spelling.
            k: suggestions a session.
            evidence: whether to fill ``Choice.attributions``, with a deletion test for the most attended queries.
            prefix: what stands in the search box already, one for all or one a record; suggestions begin with it.

        Raises:
            SettingError: not trained, ``k`` below 1 or above 1,000, or not as many prefixes as records.
        """
        return explain.answers(self, require_records(records, History), k, prefix, evidence=evidence)

    def explain(self, records: Sequence[History], k: int = 3) -> list[QueryExplanation]:
        """Which earlier words each word of the best suggestion leaned on.

        Raises:
            SettingError: not trained.
        """
        return explain.explanations(self, require_records(records, History), k)

    def vectors_of(self, records: Sequence[History]) -> tuple[Vectors, Mask]:
        """Return the encoder's vector of each session of queries, and which sessions hold a query."""
        rows = require_records(records, History)
        if self.metadata.exported is not None:
            raise SettingError("an exported model has no vectors of sessions; ask the folder that it was exported from")
        if self.schedule is None or self.model is self.retrieval:
            raise self.without_vectors("sessions", "mtn")
        return infer.session_vectors(self, explain.typed_sessions(self, rows))

    def suggest(self, sessions: Histories, k: int = 10, counting: str | None = None) -> Suggestions:
        """Return the suggestions of :meth:`predict` for sessions in columns whose values are normalised.

        Args:
            sessions: what was typed so far.
            k: suggestions a session.
            counting: a counting model in place of the model; ``repeat-last`` shows people what they typed themselves,
                so it needs no floor here.

        Raises:
            SettingError: not trained.
        """
        return infer.suggest(self, sessions, k, counting)

    def _collect(self) -> FittedSuggester:
        """Return the fitted values of a suggester."""
        return FittedSuggester(self.floor, self.tokenizer, require_trained(self.retrieval), self.train_prints)

    def _restore(self, fitted: FittedSuggester, folder: Path) -> None:
        """Take the fitted values and the network of a folder."""
        mixture = self.metadata.mixture
        if mixture is not None and mixture.keys() != {*MIXED}:
            raise ValueError("the weights of the mixture in settings.json belong to another model")
        self.floor = fitted.floor
        self.tokenizer = fitted.tokenizer
        self.train_prints = fitted.train_prints
        self.model = self.retrieval = fitted.retrieval
        if self.metadata.exported is not None:
            self.model = OnnxGenerator.read(folder, len(self.tokenizer))
        elif self.schedule is not None:
            self.read_network(folder, read_tensors(folder, NETWORK), bounded=self.model_name in {*CATALOGUE})

    def stored_data(self) -> list[str]:
        """Return what the folder stores of the queries that it was trained on."""
        queries = (
            "the queries and words that reach the k-anonymity threshold, in `fitted.json` and `baselines.safetensors`"
        )
        prints = "a 32-bit hash of each pair of queries that followed each other, for the evaluator"
        weights = "- what the weights store of words above the threshold; the network never saw words below it"
        pairs = "- what followed or co-occurred with what, counted in people, where enough people typed both"
        return [f"- {queries}; {prints}.", f"{pairs}.", f"{weights}."]

    def _shown(self) -> dict[str, object]:
        """Return the k-anonymity threshold and what is above it."""
        return {"floor": self.floor.facts}


def _joined(old: Floor, new: Floor) -> Floor:
    """Return the queries that pass the k-anonymity threshold in either log."""
    left_out = {reason: old.left_out.get(reason, 0) + count for reason, count in new.left_out.items()}
    together = {
        word: old.together.get(word, frozenset()) | new.together.get(word, frozenset())
        for word in sorted(old.together.keys() | new.together.keys())
    }
    return Floor(old.min_users, old.counted, old.queries | new.queries, old.words | new.words, together, left_out)
