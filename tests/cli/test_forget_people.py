"""``ensue forget`` of query logs, texts, posts and streams: what a planted person left, before and after."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from ensue import Post
from ensue.data.posts.dataset import Posts
from ensue.predictor import load
from ensue.stream import engine
from ensue.stream.commit import read_commit
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.sync import index_of, sync
from ensue.tasks.next.predictor import NextPredictor
from tests.cli.conftest import Ensue

BEGIN = 1_700_000_000
WORD = "zebrowski"
"""A word that the planted person alone ever wrote."""
SEARCHES = [
    (f"u{user}", f"{colour} {noun}", 100_000 * user + 7_200 * visit + 20 * step)
    for user in range(12)
    for visit, colour in enumerate(("red", "blue", "green")[user % 3 :])
    for step, noun in enumerate(("shoes", "shoes sale", "boots"))
]
MINE = [("x", "red shoes", 0), ("x", f"{WORD} reviews", 30), ("x", "red boots", 60)]


def _write(path: Path, columns: str, rows: Sequence[tuple[object, ...]]) -> Path:
    path.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "B2SUMS"}


def _holders(folder: Path, word: str = WORD) -> list[str]:
    return sorted(name for name, data in _files(folder).items() if word.encode() in data)


def _removed(report: str) -> dict[str, int]:
    return {f"{one['file']}: {one['what']}": one["count"] for one in json.loads(report)["removed"]}


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [(user, query, BEGIN + time) for user, query, time in [*SEARCHES, *MINE]]
    return _write(tmp_path_factory.mktemp("logs") / "searches.csv", "user,query,time", rows)


@pytest.mark.parametrize(("min_users", "user"), [(1, "x"), (2, "x"), (4, "u1")])
def test_counts_of_queries_are_as_if_the_person_had_never_searched(
    ensue: Ensue, searches: Path, tmp_path: Path, min_users: int, user: str
) -> None:
    folder, other, without = tmp_path / "m", tmp_path / "other", tmp_path / "without.csv"
    fit = ("--model", "co-occurrence", "--min-users", min_users)
    assert ensue("fit", "suggest", searches, "-o", folder, *fit).code == 0
    if min_users == 1:
        assert _holders(folder) == ["baselines.safetensors", "fitted.json"]
    ran = ensue("forget", folder, "--user", user, "--records", searches, "--json")
    assert ran.code == 0, ran.err
    assert _removed(ran.out)["baselines.safetensors: sessions subtracted from counts"] == (1 if user == "x" else 2)
    lines = searches.read_text().splitlines(True)
    without.write_text("".join(line for line in lines if not line.startswith(f"{user},")))
    assert ensue("fit", "suggest", without, "-o", other, *fit).code == 0
    assert _files(folder)["baselines.safetensors"] == _files(other)["baselines.safetensors"]
    after, expected = (json.loads(_files(place)["fitted.json"]) for place in (folder, other))
    assert (after["floor"], after["retrieval"]) == (expected["floor"], expected["retrieval"])
    assert not _holders(folder)
    again = ensue("forget", folder, "--user", user, "--records", searches)
    assert again.code == 2 and "not removed: counts" not in again.out
    assert again.lines[-1] == f"ensue: {folder}: holds nothing of 1 user '{user}'"


def test_a_network_of_queries_loses_the_words_that_nobody_else_typed(
    ensue: Ensue, searches: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    small = ("dim=8", "heads=2", "depth=1+1+1", "epochs=1", "min_count=1", "min_steps=0")
    options = [part for setting in small for part in ("--set", setting)]
    ran = ensue("fit", "suggest", searches, "-o", folder, "--model", "mtn", "--min-users", 1, *options)
    assert ran.code == 0, ran.err
    assert "fitted.json" in _holders(folder)
    ran = ensue("forget", folder, "--user", "x", "--records", searches)
    assert ran.code == 0 and "not removed: weights of the network" in ran.out
    assert not _holders(folder)
    assert ensue("predict", folder, "-", stdin='{"values": ["red shoes"]}').code == 0


def test_counts_that_the_log_does_not_explain_stay_and_are_listed(ensue: Ensue, searches: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    assert ensue("fit", "suggest", searches, "-o", folder, "--model", "popular", "--min-users", 1).code == 0
    new = _write(tmp_path / "new.csv", "user,query,time", [("n", q, BEGIN + 9**8) for q in ("red shoes", "red boots")])
    assert ensue("update", folder, new, "--no-test").code == 0
    ran = ensue("forget", folder, "--user", "x", "--records", searches)
    assert ran.code == 0 and "fingerprints of steps" in ran.out
    assert (
        "not removed: counts of queries, words and what followed them, for they are not those of the records" in ran.out
    )
    assert _holders(folder) == ["baselines.safetensors", "fitted.json"]


def test_texts_of_an_author(ensue: Ensue, tmp_path: Path) -> None:
    words = {"good": ("fine", "great", "lovely"), "bad": ("poor", "awful", "boring")}
    rows: list[tuple[object, ...]] = []
    for number in range(60):
        label = ("good", "bad")[number % 2]
        rows.append((f"a {words[label][number % 3]} film about {number}", label, f"a{number % 7}"))
    mine = [(f"{WORD} spoilt an awful film", "bad", "x"), (f"{WORD} was a lovely guest", "good", "x")]
    log, folder = _write(tmp_path / "texts.csv", "text,label,author", [*rows, *mine]), tmp_path / "m"
    valid = _write(tmp_path / "valid.csv", "text,label,author", [*rows[:4], *mine])
    assert ensue("fit", "classify", log, "--validation", valid, "-o", folder, "--model", "tfidf").code == 0
    assert _holders(folder) == ["baselines.safetensors", "settings.json"]
    ran = ensue("forget", folder, "--user", "x", "--records", log, "--json")
    assert ran.code == 0, ran.err
    removed = _removed(ran.out)
    assert (
        removed["baselines.safetensors: fingerprints of texts"]
        == removed["baselines.safetensors: remembered texts"]
        == 2
    )
    assert removed["settings.json: examples for the page"] == 2
    assert removed["baselines.safetensors: words that nobody else used"] == 5  # zebrowski, spoilt, an, was, guest
    assert not _holders(folder)
    assert any(line.startswith("weights of words") for line in json.loads(ran.out)["remains"])
    assert ensue("predict", folder, "-", stdin=json.dumps({"texts": [f"{WORD} film"]})).code == 0
    again = ensue("forget", folder, "--user", "x", "--records", log)
    assert again.code == 2 and "not removed: weights of words" in again.out
    part = _write(tmp_path / "part.csv", "text,label,who", [(text, label, "b") for text, label, _ in rows[:1]])
    ran = ensue("forget", folder, "--user", "b", "--records", part)
    assert ran.lines[-1] == f"ensue: {part}: no column is recognised as the author's; name it with --user-column"
    ran = ensue("forget", folder, "--user", "b", "--records", part, "--user-column", "who")
    assert ran.code == 0 and "not removed: words that perhaps nobody else used" in ran.out


@pytest.mark.parametrize("model", ["bm25", "cnn"])
def test_posts_of_an_author(ensue: Ensue, tmp_path: Path, model: str) -> None:
    names = [f"A{number}" for number in range(8)]
    articles = _write(
        tmp_path / "articles.csv",
        "id,title,body",
        [(name, f"title {name}", " ".join(f"{name.lower()}w{word}" for word in range(5))) for name in names],
    )
    words = [(name, n, f"{name.lower()}w{n} and {name.lower()}w{n + 1}") for n in range(4) for name in names]
    rows = [(f"p{n}{name}", text, name, "w") for name, n, text in words]
    rows.append(("post-of-x", f"{WORD} saw {WORD} near a3w1 a3w4", "A3", "x"))
    objects = [
        {"id": id, "text": text, "about": [about], "user": {"name": user}, "part": "valid" if n > 28 else "train"}
        for n, (id, text, about, user) in enumerate(rows)
    ]
    posts = tmp_path / "posts.jsonl"
    posts.write_text("\n".join(map(json.dumps, objects)))
    folder = tmp_path / "m"
    small = ("--set=dim=8", "--set=epochs=1", "--set=min_count=1") if model == "cnn" else ()
    ran = ensue("fit", "link", posts, "--articles", articles, "-o", folder, "--model", model, *small)
    assert ran.code == 0, ran.err
    predictor = LinkPredictor.load(folder, device="cpu")
    before = predictor.remembered
    assert before is not None and "settings.json" in _holders(folder)
    if model == "cnn":
        every = Posts.of([Post(text, id) for id, text, _, _ in rows])
        sync(predictor, every, folder)
    ran = ensue("forget", folder, "--user", "x", "--records", posts, "--user-column", "user.name", "--json")
    assert ran.code == 0, ran.err
    removed = _removed(ran.out)
    assert removed["baselines.safetensors: remembered posts"] == removed["settings.json: examples for the page"] == 1
    assert not _holders(folder)
    after = LinkPredictor.load(folder, device="cpu").remembered
    assert after is not None and after.num == before.num - 1
    assert len(after.pairs) == len(before.pairs) - 1 and after.pairs[:, 1].max() < after.num
    if model == "cnn":
        assert removed["m.posts: vectors of posts"] == 1
        assert not any(b"post-of-x" in file.read_bytes() for file in index_of(folder).iterdir())


def _stream(path: Path, num: int, sessions: dict[str, str]) -> Path:
    """Write a log of some people who walk in a circle, and the names and items of single events at its end."""
    events = [{"session": f"s{at // 4}", "item": f"p{at % 5}", "time": BEGIN + 60 * at} for at in range(num)]
    events += [{"session": name, "item": item, "time": BEGIN + 60 * num} for name, item in sessions.items()]
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


def test_what_a_stream_keeps_of_a_person(ensue: Ensue, tmp_path: Path) -> None:
    walks = [(f"u{n}", f"p{(n + step) % 5}", BEGIN + 600 * n + step) for n in range(30) for step in range(4)]
    mine = [("x", "diary-of-x", BEGIN), ("x", "p1", BEGIN + 9)]
    log = _write(tmp_path / "clicks.csv", "user,item,time", [*walks, *mine])
    folder = tmp_path / "m"
    small = ("--set=dim=8", "--set=epochs=1")
    assert ensue("fit", "next", log, "-o", folder, "--model", "gru4rec", *small).code == 0
    clicks = _stream(tmp_path / "clicks.jsonl", 700, {"x": "p1", "y": "p2"})
    bad = [{"session": name, "item": "p1", "time": "yesterday"} for name in ("x", "xy", "y")]
    with clicks.open("a") as file:
        file.write("".join(f"{json.dumps(event)}\n" for event in bad) + "x sent no JSON\n")
    assert ensue("stream", folder, clicks, "--no-follow", "--json").code == 0
    rejects, (resume,) = tmp_path / "m.rejects.jsonl", tmp_path.glob(".m.resume.*")
    assert len(rejects.read_text().splitlines()) == 4
    holders = [place.name for place in (folder, resume) if "baselines.safetensors" in _holders(place, "diary-of-x")]
    assert holders == ["m", resume.name]
    ran = ensue("forget", folder, "--user", "x", "--records", log, "--json")
    assert ran.code == 0, ran.err
    removed = _removed(ran.out)
    assert removed["stream.safetensors: open sessions"] == 1 and removed["m.rejects.jsonl: rejected lines"] == 2
    left = [json.loads(json.loads(line)["line"])["session"] for line in rejects.read_text().splitlines()]
    assert left == ["xy", "y"]
    assert not resume.exists()
    assert not _holders(folder, "diary-of-x")
    remains = json.loads(ran.out)["remains"]
    assert any(line.startswith("events of a stream without names") for line in remains)
    assert any(line.startswith("the log, queue or topic that the stream reads") for line in remains)
    with clicks.open("a") as file:
        late = [{"session": "z", "item": f"p{number}", "time": BEGIN + 42_060 + number} for number in range(3)]
        file.write("".join(f"{json.dumps(event)}\n" for event in late))
    ran = ensue("stream", folder, clicks, "--no-follow", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out.splitlines()[-1])["events"] == 705  # goes on where it stood
    assert "diary-of-x" not in load(folder).vocabulary  # type: ignore[attr-defined]


@pytest.mark.parametrize("count_every", [4, 65_536])
def test_followers_of_a_person_are_removed_from_a_stream(
    ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count_every: int
) -> None:
    """One session has ended, and is counted or not; one is open. Pairs of others stay, equal ones too."""
    monkeypatch.setattr(engine, "COUNT_EVERY", count_every)
    log = _write(tmp_path / "l.csv", "user,item,time", [(f"u{n % 20}", f"p{n % 3}", BEGIN + n) for n in range(60)])
    others = [(f"s{at // 4}", f"p{at % 5}", BEGIN + 60 * at) for at in range(100)]
    mine = [("x", item, BEGIN + 30 + 60 * at) for at, item in enumerate(["p0", "p1", "rare", "p3"])]
    mine += [("x", item, BEGIN + 5_900 + at) for at, item in enumerate(["p2", "rarest"])]
    events = [*others, *mine]
    events.sort(key=lambda event: event[2])
    folder, clicks = tmp_path / "m", tmp_path / "clicks.jsonl"
    clicks.write_text(
        "".join(f"{json.dumps(dict(zip(('session', 'item', 'time'), e, strict=True)))}\n" for e in events)
    )
    assert ensue("fit", "next", log, "-o", folder, "--model", "popularity").code == 0
    assert ensue("stream", folder, clicks, "--no-follow").code == 0

    def followers() -> Counter[tuple[str, str]]:
        values = ["", "", *NextPredictor.load(folder).vocabulary.values]
        commit = read_commit(folder)
        assert commit is not None and commit.baselines is not None
        items, offsets, ids = (column.tolist() for column in commit.baselines.followers)
        bounds = zip(items, pairwise(offsets), strict=True)
        return Counter((values[item], values[id]) for item, (low, high) in bounds for id in ids[low:high])

    before = followers()
    records = _write(tmp_path / "records.csv", "user,item,time", events)
    ran = ensue("forget", folder, "--user", "x", "--records", records, "--json")
    assert ran.code == 0, ran.err
    assert _removed(ran.out)["stream.safetensors: followers of items"] == 4
    pairs = [("p0", "p1"), ("p1", "rare"), ("rare", "p3"), ("p2", "rarest")]
    assert before - Counter(pairs) == followers() and before[pairs[0]] > 1


def test_a_stream_that_was_killed_is_ended_first(ensue: Ensue, tmp_path: Path) -> None:
    log = _write(tmp_path / "l.csv", "user,item,time", [(f"u{n % 20}", f"p{n % 3}", BEGIN + n) for n in range(60)])
    folder, clicks = tmp_path / "m", _stream(tmp_path / "clicks.jsonl", 100, {"x": "p1"})
    assert ensue("fit", "next", log, "-o", folder, "--model", "popularity").code == 0
    assert ensue("stream", folder, clicks, "--no-follow", "--max-events", 90).code == 0
    (tmp_path / ".m.journal").write_bytes(b"of a stream that was killed")
    ran = ensue("forget", folder, "--user", "x", "--records", log)
    assert (ran.code, ran.lines[-1]) == (
        2,
        f"ensue: {folder}: its stream was killed and has events that are not learned yet; start it with `ensue stream` "
        "and end it, then forget again",
    )
