"""The predictor of task ``suggest``: the queries of a session in, the next ones out, none that too few people typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from ensue.answers import Answer, QueryExplanation
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.data.query_tokens import QueryTokenizer
from ensue.errors import SettingError
from ensue.nn.device import find_device, room_for
from ensue.records import History
from ensue.schedule import require_fixed
from ensue.settings import changed, require_k, require_seed
from ensue.store.folder import read_model, write_folder
from ensue.tasks.suggest import BEST, MODELS, SHARED, answers, explaining, fitting, storage, updating
from ensue.tasks.suggest.counting import MostFrequentNext, RepeatLast, Suggestions
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.retrieval import Retrieval
from ensue.tasks.suggest.serving import SuggestSettings
from ensue.training.loop import Report
from ensue.training.optimizer import LateOptimizer


class SuggestPredictor:
    """Says which query comes next in a session, and completes what is being typed.

    Args:
        model: a name in ``MODELS``, or ``best``: see ``BEST``.
        settings: settings of the model, of its schedule and of :class:`SuggestSettings` to change, by name.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: where the network runs; a GPU is used when there is one.

    Raises:
        SettingError: an unknown model or setting.
    """

    task = "suggest"
    optimizer = LateOptimizer()

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        if model not in ("best", *MODELS):
            raise SettingError(f"model {model!r} is not known for task suggest; choose from best, {', '.join(MODELS)}")
        name, given = BEST if model == "best" else (model, {})
        self.model_name, own, schedule = name, *MODELS[name][1:]
        self.settings, self.schedule, shared = changed({**given, **(settings or {})}, own, schedule, SHARED)
        self.shared: SuggestSettings = shared
        require_fixed(self.schedule, "suggest", "loss")
        self.seed = require_seed(seed)
        self.device = find_device(device)
        self.floor = Floor(self.shared.min_users, "users", frozenset(), frozenset(), {})
        self.tokenizer: QueryTokenizer = QueryTokenizer.fit(fitting.NO_TEXTS)
        self.retrieval: Retrieval | None = None
        self.model: Any = None
        self.facts: dict[str, Any] = {}
        self.seconds_an_epoch: float | None = None
        self.train_prints = torch.zeros(0, dtype=torch.int32)
        self.optimizer = None
        self.rules: answers.Rules | None = None

    @property
    def network(self) -> Any:
        """The trained module, or what was counted.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        if self.model is None:
            raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
        return self.model

    @property
    def following(self) -> MostFrequentNext:
        """The queries that may be shown, and what followed each."""
        self.network  # noqa: B018 trained?
        assert self.retrieval is not None
        return self.retrieval.following

    def fit(
        self, data: Queries, valid: Queries | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Training stops by the loss on validation sessions: the rank of the true next query would cost a search for each
        at every check, and most of them no model can rank. Without ``valid`` these are the file's own, or the tenth of
        the sessions that begins last.

        Args:
            data: sessions; of a file with parts, those of ``train`` are learned.
            valid: what is looked at in place of held-out sessions.
            checkpoint: a file that lets a killed run continue.
            resume: continue from there.

        Raises:
            DataError: no session of two queries, or nothing that enough people typed.
            SettingError: the loss is no longer a number, or another run's checkpoint.
        """
        return fitting.fit(self, data, valid, checkpoint, resume)

    def update(self, data: Queries) -> Report:
        """Learn new sessions on top of what is known, in one pass.

        Counts, the index and the floor grow; what is typed by enough users of the new log may be shown from now on.
        Of queries below the floor nothing was kept, so their counts do not add up over updates. With ``tokens=words`` a
        new word stays unknown to the network; with ``bpe`` there is none.

        Raises:
            DataError: no session of two queries, or sessions without users where the floor counts users.
        """
        return updating.update(self, data)

    def predict(
        self, records: Sequence[History], k: int = 10, *, evidence: bool = True, prefix: str | Sequence[str] = ""
    ) -> list[Answer]:
        """The ``k`` likeliest next queries of each session, with the earlier queries they leaned on.

        A score is a suggestion's share among all that were considered for this answer, written or looked up. A session
        without queries gets those that are typed most. Fewer than ``k`` come where the floor lets no more pass.

        Args:
            records: sessions; their values are the queries typed so far, in any spelling.
            k: suggestions a session.
            evidence: whether to fill ``Choice.heeded``, with a deletion test for the most heeded queries.
            prefix: what stands in the search box already, one for all or one a record; suggestions begin with it.

        Raises:
            SettingError: not trained, ``k`` below 1, or not as many prefixes as records.
        """
        require_k(k)
        self.network  # noqa: B018 trained?
        prefixes = [prefix] * len(records) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(records):
            raise SettingError(f"{len(prefixes)} prefixes for {len(records)} records; give one for all, or one each")
        return explaining.answers_of(self, records, k, prefixes, evidence=evidence) if len(records) else []

    def explain(self, records: Sequence[History], k: int = 3) -> list[QueryExplanation]:
        """Which earlier words each word of the best suggestion leaned on.

        Raises:
            SettingError: not trained.
        """
        found = zip(records, self.predict(records, k), strict=True)
        return [explaining.explanation(self, record, answer) for record, answer in found]

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
        if counting == "repeat-last":
            return RepeatLast().suggest(sessions, k)
        if counting is not None:
            return self.following.suggest(sessions, k, typed=True)
        return answers.suggestions(self, sessions, k)

    def new_network(self) -> Any:
        """An untrained network on this predictor's device."""
        with room_for(self.model_name):
            return MODELS[self.model_name][0](self.settings, len(self.tokenizer)).to(self.device)

    def summary(self) -> dict[str, Any]:
        """What was learned from what, and how: goes into ``settings.json`` and the card."""
        own = asdict(self.settings) if self.settings is not None else {}
        return {
            "task": self.task,
            "model": self.model_name,
            "settings": {**own, **asdict(self.shared)},
            "schedule": asdict(self.schedule) if self.schedule else None,
            "seed": self.seed,
            "facts": {**self.facts, "floor": self.floor.facts},
        }

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once; an older model there is replaced whole.

        Args:
            folder: where.
            card: the text of ``CARD.md``.

        Raises:
            ModelFolderError: not writable, full, or taken by something that is no model.
            SettingError: not trained.
        """
        self.network  # noqa: B018 trained?
        write_folder(Path(folder), storage.files(self, card))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a folder written by :meth:`save`.

        Raises:
            ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
        """
        return read_model(Path(folder), partial(cls, device=device), storage.fill)
