"""Scenario of the page: the event, and questions from its last two days with true answers; the five logs as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ensue.demo.models import Demo, written
from ensue.demo.town import DAY, VALID_DAY, Session, Town, Written
from ensue.records import History
from ensue.store.folder import write_file
from ensue.tasks import TASKS

Values = dict[str, Any]
"""A JSON object."""
ITEMS = 8
"""Questions per panel."""


def story_of(demo: Demo, seed: int) -> Values:
    """Return the scenario as one JSON object: articles, questions with true answers, and metrics of the models."""
    story = demo.story
    panels = {
        "posts": _posts(story),
        "stance": _stances(story),
        "sharing": _sharing(story),
        "reading": _sessions(story.reading),
        "searching": _sessions(story.searching),
    }
    return {
        "title": story.title,
        "summary": story.summary,
        "seed": seed,
        "begins": story.begins,
        "people": dict(story.people),
        "articles": [
            {"id": article.id, "title": article.title, "body": article.body, "day": _day(story, article.id)}
            for article in story.articles
        ],
        "panels": {name: _right_first(questions, demo, name) for name, questions in panels.items()},
        "rows": [asdict(row) for row in demo.rows],
        "notes": demo.lines(),
    }  # fmt: skip


def write_story(demo: Demo, path: Path, seed: int) -> None:
    """Write ``story.json``.

    Raises:
        ModelFolderError: it cannot be written there.
    """
    write_file(path, (json.dumps(story_of(demo, seed), ensure_ascii=False, indent=1) + "\n").encode())


def write_logs(story: Town, folder: Path) -> list[Path]:
    """Write the five logs, and the true edges, as files that every command reads.

    Raises:
        ModelFolderError: a file cannot be written there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, Iterable[str]] = {
        "articles.jsonl": (article.to_json() for article in story.articles),
        "posts.jsonl": (post.post.to_json() for post in story.posts),
        "stances.tsv": (f"{post.label}\t{post.post.text}" for post in story.posts if post.label is not None),
        "cascades.jsonl": (record.to_json() for cascades in story.parts for record in cascades.records()),
        "edges.tsv": ("from\tto", *("\t".join(edge) for edge in sorted(story.cascades.edges))),
        "clicks.jsonl": (session.history.to_json() for session in story.reading),
        "searches.tsv": _searches(story.searching),
    }
    for name, texts in lines.items():
        write_file(folder / name, "".join(f"{line}\n" for line in texts).encode())
    return [folder / name for name in lines]


def _searches(sessions: Sequence[Session]) -> Iterable[str]:
    yield "user\tquery\ttime"
    for session in sessions:
        for query, time in zip(session.history.values, session.history.times, strict=True):
            yield f"{session.person}\t{query}\t{time:.0f}"


def _right_first(questions: list[Values], demo: Demo, name: str) -> list[Values]:
    """Return ``ITEMS`` questions: the correctly answered one with the highest score first, the others spread evenly."""
    predictor = demo.predictors[name]
    kind = TASKS[predictor.task].record
    answers = predictor.predict([kind.from_fields(question["record"]) for question in questions], 1)
    tops = [answer.choices[0] if answer.choices else None for answer in answers]
    correct = [row for row, top in enumerate(tops) if top and top.value in questions[row]["truth"]]
    # The page opens with a question that the model answers well.
    best = [max(correct, key=lambda row: tops[row].score)] if correct else []  # type: ignore[union-attr]
    remaining = [question for row, question in enumerate(questions) if row not in best]
    return [*(questions[row] for row in best), *_spread(remaining, ITEMS - len(best))]


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    """Return ``count`` elements, evenly spread over a list."""
    # The first and the last are among them.
    return [items[index] for index in np.linspace(0, len(items) - 1, min(count, len(items))).astype(int).tolist()]


def _posts(story: Town) -> list[Values]:
    """Return posts about the event, about other news, and about no article."""
    posts = written(story)[2]
    event = [post for post in posts if post.label]
    other_news = [post for post in posts if post.post.about and not post.label]
    unrelated = [post for post in posts if not post.post.about]
    return [
        _question({"text": post.post.text, "id": post.post.id}, list(post.post.about), post.author, post.time)
        for post in (*_spread(event, 5), *_spread(other_news, 2), *_spread(unrelated, 1))
    ]


def _stances(story: Town) -> list[Values]:
    """Return posts about the event, two of each feeling."""
    by_feeling: dict[str | None, list[Written]] = {}
    for post in written(story)[2]:
        if post.label is not None:
            by_feeling.setdefault(post.feeling, []).append(post)
    examples = [post for posts in by_feeling.values() for post in _spread(posts, 2)]
    return [
        _question({"texts": [post.post.text], "id": post.post.id}, [post.feeling], post.author, post.time)
        for post in examples[:ITEMS]
    ]


def _sharing(story: Town) -> list[Values]:
    """Return cascades cut in the middle, with the next user and the true source."""
    test = story.cascades.test
    parents = story.cascades.true_parents
    texts = {post.post.id: post for post in story.posts}
    rows = [row for row, length in enumerate(test.lengths.tolist()) if 6 <= length <= 14]
    # Posts about nothing have no article that the page could show next to them.
    rows = [row for row in rows if texts[test.names[row]].post.about]
    questions = []
    for row in _spread(rows, 8 * ITEMS):
        record = test.record(row)
        post = texts[test.names[row]]
        # Half is shown; the next one is asked for.
        cut = max(3, len(record.values) // 2)
        # From the position among all test events to the one within this cascade.
        parent = int(parents[test.offsets[row] + cut] - test.offsets[row])
        session = {"values": list(record.values[:cut]), "times": list(record.times[:cut]), "id": record.id}
        details = {"through": record.values[parent], "text": post.post.text}
        questions.append(_question(session, [record.values[cut]], post.author, post.time, details))
    return questions


def _sessions(sessions: Sequence[Session]) -> list[Values]:
    """Return sessions of the test days without their last event, which is the true answer."""
    questions = []
    for session in _spread([session for session in sessions if session.day > VALID_DAY], 8 * ITEMS):
        history: History = session.history
        record = {"values": list(history.values[:-1]), "times": list(history.times[:-1]), "id": history.id}
        questions.append(_question(record, [history.values[-1]], session.person, history.times[0]))
    return questions


def _question(record: Values, truth: list[Any], person: str, time: float, details: Values | None = None) -> Values:
    """Return a question of the page with its true answers, and who asked it when."""
    when = datetime.fromtimestamp(time, UTC).strftime("%A %-d %B, %H:%M")
    return {"record": record, "truth": truth, **(details or {}), "who": person, "when": when}


def _day(story: Town, article: str) -> str:
    return datetime.fromtimestamp((story.begins + DAY * story.published[article]), UTC).strftime("%A %-d %B")
