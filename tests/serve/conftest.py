"""Small models of every task as folders, and the application on top of copies of them, without a socket."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ensue import Article, History, Post, Text
from ensue.data.edges import Edges
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import read_queries
from ensue.data.texts import Texts
from ensue.experiments import Experiment
from ensue.predictor import make
from ensue.serve import learning, models
from ensue.serve.app import Service, make_app
from ensue.serve.events import RedisQueue
from ensue.serve.experiments import require_experiments
from ensue.serve.files import Files
from ensue.serve.models import ServedModels
from ensue.serve.monitoring import Metrics, ServiceLog
from ensue.serve.settings import ServeSettings
from ensue.stream import SQLiteQueue
from tests.processes import quick_python

THEMES = {
    "ferry": "harbour ferry crossing captain tide deck quay night sailing fares",
    "train": "railway train station platform driver ticket track signal delay carriage",
    "storm": "storm wind rain flood thunder clouds forecast damage roofs gale",
}


def sessions(num: int = 120, seed: int = 0) -> list[History]:
    """After each value comes the next one, mostly."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(num):
        first, steps = int(draw.integers(12)), draw.random(4) < 0.9
        values = [first]
        for straight in steps:
            values.append((values[-1] + 1) % 12 if straight else int(draw.integers(12)))
        found.append(History(tuple(f"v{value}" for value in values), (0.0, 20.0, 40.0, 60.0, 80.0)))
    return found


def texts(num: int = 60) -> list[Text]:
    """``good`` or ``bad`` tells the label."""
    words = ("film", "plot", "actor", "music", "scene")
    return [
        Text((f"a {('good', 'bad')[at % 2]} {words[at % 5]} and {words[at // 2 % 5]}",), ("yes", "no")[at % 2])
        for at in range(num)
    ]


def corpus() -> Corpus:
    """Three articles, and posts of their words."""
    articles = [Article(f"{words}.\nMore {words}.", name, f"The {name}") for name, words in THEMES.items()]
    posts = [
        Post(" ".join(words.split()[at : at + 3]), f"{name}{at}", (name,))
        for name, words in THEMES.items()
        for at in range(7)
    ]
    return Corpus(Articles.of(articles), Posts.of(posts))


def write_models(place: Path) -> None:
    """A folder a task; ``heat`` is a model of ``next`` with weights between the events."""
    for name, model, own in (
        ("clicks", "core", {"dim": 8, "epochs": 2, "negatives": 8}),
        ("heat", "hidan", {"dim": 8, "table_dim": 4, "epochs": 1}),
        ("counted", "markov", {}),
    ):
        predictor = make("next", model, settings=own, device="cpu")
        for _ in predictor.fit(Histories.of(sessions())):
            pass
        predictor.save(place / name, "card")
    log = place / "queries.jsonl"
    asked = [("cheap flights", "flights to rome"), ("rome hotels", "cheap hotels"), ("cheap flights", "rome hotels")]
    rows = [
        {"user": f"u{user}", "query": query, "time": 1_700_000_000 + 100_000 * at + 60 * place_}
        for user in range(8)
        for at, pair in enumerate(asked)
        for place_, query in enumerate(pair)
    ]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    small = {"dim": 8, "heads": 2, "epochs": 1, "min_count": 1}
    suggest = make("suggest", "mtn", settings=small, device="cpu")
    for _ in suggest.fit(read_queries(log)[0]):
        pass
    suggest.save(place / "searches", "card")
    classify = make("classify", "centrality", settings={"hidden": 8, "dim": 8, "head": 8, "epochs": 2}, device="cpu")
    for _ in classify.fit(Texts.of(texts())):
        pass
    classify.save(place / "mood", "card")
    link = make("link", "best", device="cpu")
    for _ in link.fit(corpus()):
        pass
    link.save(place / "links", "card")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All models; tests read them and leave them alone."""
    place = tmp_path_factory.mktemp("models")
    write_models(place)
    return place


@pytest.fixture
def folder(fitted: Path, tmp_path: Path) -> Path:
    """A copy of the small ``clicks`` model, to be replaced."""
    return Path(shutil.copytree(fitted / "clicks", tmp_path / "clicks"))


@pytest.fixture(autouse=True)
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What learns an update or tries a version apart starts at once."""
    monkeypatch.setattr(sys, "executable", quick_python())


@pytest.fixture(autouse=True)
def proved_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """New versions are proved in this process as they are loaded: another one takes seconds, and is tested apart."""
    monkeypatch.setattr(models, "prove_apart", lambda copy, seconds: None)


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates are learned in this process: starting another one takes seconds, and is tested once."""
    learn_at_hand(monkeypatch)


def learn_at_hand(patch: pytest.MonkeyPatch) -> None:
    """Learn updates, and prove new versions, in this process."""

    async def learn(update: learning.Sent, *, seconds: float) -> dict[str, Any]:
        return learning.report_of(await asyncio.to_thread(learning.outcome, update), update.folder)

    patch.setattr(learning, "learn_apart", learn)
    patch.setattr(models, "prove_apart", lambda copy, seconds: None)


class Running(NamedTuple):
    """An application that runs, and what it is made of."""

    client: TestClient
    service: Service
    written: io.StringIO

    def lines(self) -> list[dict[str, Any]]:
        """What was logged."""
        assert self.client.portal is not None
        self.client.portal.call(asyncio.to_thread, self.service.log.flush)  # lines of requests are written together
        return [json.loads(line) for line in self.written.getvalue().splitlines()]

    def post(self, address: str, body: Any, **more: Any) -> Any:
        """Send JSON."""
        return self.client.post(address, json=body, **more)


@contextmanager
def running(
    folders: dict[str, Path],
    *,
    queue: SQLiteQueue | RedisQueue | None = None,
    story: bytes | None = None,
    edges: Mapping[str, Edges] | None = None,
    experiments: tuple[Experiment, ...] = (),
    shown: io.StringIO | None = None,
    token: str = "",
    update_token: str = "",
    hosts: tuple[str, ...] = (),
    files: Files | None = None,
    raise_errors: bool = True,
    **settings: Any,
) -> Iterator[Running]:
    """The application of these folders."""
    written = io.StringIO()
    log, metrics, own = ServiceLog(written), Metrics(), ServeSettings(**{"poll": 0.02, "grace": 5.0, **settings})
    service = Service(
        models=ServedModels.of_folders(folders, own, metrics, log),
        settings=own,
        metrics=metrics,
        log=log,
        files=files or Files(),
        queue=queue,
        story=story,
        edges=edges or {},
        experiments=require_experiments(experiments, folders),
        shown=None if shown is None else ServiceLog(shown),
        token=token,
        update_token=update_token,
        hosts=hosts,
    )
    with TestClient(make_app(service), raise_server_exceptions=raise_errors) as client:
        yield Running(client, service, written)


@pytest.fixture(scope="module")
def all_tasks(fitted: Path) -> Iterator[Running]:
    """Every model, served; tests only ask."""
    names = ("clicks", "heat", "counted", "searches", "mood", "links")
    with running({name: fitted / name for name in names}) as found:
        yield found
