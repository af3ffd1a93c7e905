"""The predictor of task ``suggest``: the queries of a session in, the next ones out, none that too few people typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ensue.answers import Answer, QueryExplanation
from ensue.arguments import require_records
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.learning import life
from ensue.records import History
from ensue.tasks.suggest import explain, infer, train, update
from ensue.tasks.suggest.baselines.counting import Suggestions
from ensue.tasks.suggest.save import FOLDERS
from ensue.tasks.suggest.state import SuggestState
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report


class SuggestPredictor(SuggestState):
    """Says which query comes next in a session, and completes what is being typed.

    See :class:`SuggestState` for its arguments.
    """

    data_type = Queries
    folders = FOLDERS

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
        return update.update(self, data)

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

    def suggest(self, sessions: Histories, k: int = 10, counting: str | None = None) -> Suggestions:
        """What :meth:`predict` gives, for sessions in columns whose values are normalised.

        Args:
            sessions: what was typed so far.
            k: suggestions a session.
            counting: a counting model in place of the model; ``repeat-last`` shows people what they typed themselves,
                so it needs no floor here.

        Raises:
            SettingError: not trained.
        """
        return infer.suggest(self, sessions, k, counting)
