"""Exports of platforms, and folders of texts, as they are downloaded: checked, linked, classified and answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ensue

TEXTS = [
    f"{('no ferry leaves the harbour', 'the council votes on the budget')[number % 2]} at {number} o'clock"
    for number in range(24)
]
LABELS = ["harbour", "council"]
STORIES = [
    {
        "id": "harbour",
        "title": "Ferries",
        "body": "The ferry no longer leaves the harbour. Ferries wait in the harbour.",
    },
    {"id": "council", "title": "Budget", "body": "The council votes on the budget of the roads. The budget is large."},
]


def moment(number: int) -> str:
    return f"2026-03-01T09:{number:02}:00Z"


def lines(*objects: object) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in objects)


def telegram() -> str:
    messages = [
        {"id": number, "type": "message", "date": moment(number)[:-1], "from": f"Ann {number}", "text": text}
        for number, text in enumerate(TEXTS)
    ]
    return json.dumps({"name": "Harrowmere", "type": "private_group", "messages": messages}, indent=1)


def mastodon() -> str:
    items = [
        {
            "id": f"a/{number}",
            "type": "Create",
            "actor": "ann",
            "published": moment(number),
            "object": {"id": str(number), "type": "Note", "content": f"<p>{text}</p>"},
        }
        for number, text in enumerate(TEXTS)
    ]
    return json.dumps({"type": "OrderedCollection", "orderedItems": items})


def reddit() -> str:
    about = {"subreddit": "h", "is_self": True, "title": "", "url": "https://reddit.example"}
    return lines(
        *(
            about | {"id": str(number), "author": f"u{number}", "created_utc": 1772355600 + number, "selftext": text}
            for number, text in enumerate(TEXTS)
        )
    )


def bluesky() -> str:
    return lines(
        *(
            {
                "uri": str(number),
                "author": {"handle": f"u{number}"},
                "record": {"text": text, "createdAt": moment(number)},
            }
            for number, text in enumerate(TEXTS)
        )
    )


def zeeschuimer() -> str:
    return lines(
        *(
            {
                "nav_index": str(number),
                "item_id": str(number),
                "source_platform": "tiktok.com",
                "data": {
                    "id": str(number),
                    "desc": text,
                    "author": {"uniqueId": "ann"},
                    "createTime": 1772355600 + number,
                    "stats": {"diggCount": 1, "shareCount": 0, "commentCount": 0, "playCount": 9},
                },
            }
            for number, text in enumerate(TEXTS)
        )
    )


def youtube() -> str:
    items = [
        {
            "kind": "youtube#commentThread",
            "snippet": {
                "videoId": "v1",
                "topLevelComment": {
                    "id": str(number),
                    "snippet": {
                        "videoId": "v1",
                        "textOriginal": text,
                        "authorDisplayName": f"@u{number}",
                        "publishedAt": moment(number),
                    },
                },
            },
        }
        for number, text in enumerate(TEXTS)
    ]
    return json.dumps({"kind": "youtube#commentThreadListResponse", "items": items}, indent=2)


EXPORTS: dict[str, Callable[[], str]] = {
    "telegram": telegram,
    "mastodon": mastodon,
    "reddit": reddit,
    "bluesky": bluesky,
    "zeeschuimer": zeeschuimer,
    "youtube": youtube,
}


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    path = tmp_path / "stories.jsonl"
    path.write_text(lines(*STORIES))
    return path


def folder_of_texts(folder: Path) -> Path:
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("layout", EXPORTS)
def test_an_export_is_checked_linked_and_classified(ensue: Ensue, tmp_path: Path, stories: Path, layout: str) -> None:
    export = tmp_path / "export.json"
    export.write_text(EXPORTS[layout]())
    ran = ensue("check", export, "--articles", stories, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["posts"] == len(TEXTS) and f"{export}: {layout}" in ran.err

    qrels = tmp_path / "qrels.txt"
    qrels.write_text("".join(f"{number} 0 {LABELS[number % 2]} 1\n" for number in range(len(TEXTS))))
    ran = ensue(
        "fit",
        "link",
        "--queries",
        export,
        "--qrels",
        qrels,
        "--articles",
        stories,
        "-o",
        tmp_path / "l",
        "--model=bm25",
    )
    assert ran.code == 0, ran.err
    story = tmp_path / "story.jsonl"
    story.write_text(lines(STORIES[0]))
    ran = ensue("link", story, export, "--folder", tmp_path / "l", "--json", "-k", "12")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert {post["text"] for post in found["best"]} == set(TEXTS[::2]) and found["posts"] == len(TEXTS)
    ran = ensue("predict", tmp_path / "l", export, "--json", "-k", "1")
    assert ran.code == 0, ran.err
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert {answer["id"]: answer["choices"][0]["value"] for answer in answers} == {
        str(number): LABELS[number % 2] for number in range(len(TEXTS))
    }


def fit_classifier(ensue: Ensue, tmp_path: Path) -> Path:
    """A model of the two kinds of texts."""
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text(lines(*({"text": text, "label": LABELS[n % 2]} for n, text in enumerate(TEXTS))))
    ran = ensue("fit", "classify", labelled, "-o", tmp_path / "c", "--model=tfidf", "--device=cpu")
    assert ran.code == 0, ran.err
    return tmp_path / "c"


def labels_of(out: str) -> list[str]:
    return [json.loads(line)["choices"][0]["value"] for line in out.splitlines()]


def test_texts_of_every_export_are_classified(ensue: Ensue, tmp_path: Path) -> None:
    model, export = fit_classifier(ensue, tmp_path), tmp_path / "export.json"
    for layout, write in EXPORTS.items():
        export.write_text(write())
        ran = ensue("predict", model, export, "--json", "-k", "1")
        assert ran.code == 0, ran.err
        assert labels_of(ran.out) == [LABELS[number % 2] for number in range(len(TEXTS))], layout
        ran = ensue("fit", "classify", export, "-o", tmp_path / "new", "--model=tfidf")
        message = f"ensue: {export}: the texts have no labels; name their column with --columns label=…"
        assert (ran.code, ran.lines[-1]) == (2, message), layout


@pytest.mark.parametrize("named", ["texts", "texts/*.txt"], ids=["a folder", "a pattern"])
def test_a_folder_of_texts_is_linked(ensue: Ensue, tmp_path: Path, stories: Path, named: str) -> None:
    folder_of_texts(tmp_path / "texts")
    ran = ensue("check", tmp_path / named, "--articles", stories, "--json")
    assert ran.code == 0 and json.loads(ran.out)["posts"] == len(TEXTS), ran.err
    ran = ensue("link", stories, tmp_path / named, "--json", "-k", "24")
    assert ran.code == 0, ran.err
    assert {post["text"] for post in json.loads(ran.out)["best"]} == set(TEXTS)
