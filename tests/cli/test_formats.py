"""Files in the shapes in which people hold them: `check` knows the task, and `fit` learns, with no conversion."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Ensue

WORDS = ["ferry", "night", "harbour", "council", "budget", "roads", "schools", "island", "votes", "crossing"]


def words(seed: int, count: int = 5) -> str:
    return " ".join(WORDS[(seed * 7 + place * (seed % 3 + 1)) % len(WORDS)] for place in range(count))


def cascades(line: Callable[[Sequence[str], Sequence[int]], str]) -> str:
    rows = []
    for number in range(40):
        users = [f"u{(number * 3 + step * (number % 4 + 1)) % 29}" for step in range(4 + number % 4)]
        times = [1_464_710_400 + 1000 * number + 17 * step * step for step in range(len(users))]
        rows.append(line(users, times))
    return "\n".join([*rows, ""])


def paths(users: Sequence[str], times: Sequence[int]) -> str:
    steps = (f"{users[0]}/{user}:{time - times[0]}" for user, time in zip(users[1:], times[1:], strict=True))
    return f"{users[0]}-{times[0]}\t{users[0]}\t{times[0]}\t{len(users)}\t{users[0]}:0 {' '.join(steps)}"


def pairs(between: str, within: str, root: str = "") -> Callable[[Sequence[str], Sequence[int]], str]:
    """Users and times with something between; after a root, and what stands behind that, if there is one."""

    def line(users: Sequence[str], times: Sequence[int]) -> str:
        first = int(bool(root))
        later = (f"{user}{within}{time}" for user, time in zip(users[first:], times[first:], strict=True))
        return (f"{users[0]}{root}" if root else "") + between.join(later)

    return line


def listed(rows: Sequence[dict[str, object]]) -> str:
    return json.dumps(rows, indent=1)


def visits(line: Callable[[int, int, int], str], *, users: int = 24) -> str:
    """One line per visit of a user, by user, in order of time."""
    rows = [
        line(user, (user + step * (1 + user % 3)) % 12, 1_460_000_000 + 90_000 * user + 60 * step)
        for user in range(1, users + 1)
        for step in range(4 + user % 3)
    ]
    return "".join(f"{row}\n" for row in rows)


def moment(seconds: int, form: str) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def venue(item: int) -> str:
    return f"{item:024x}"


TURNS = [[words(number + step, 2 + step % 3) for step in range(3)] for number in range(30)]
NEXT = {
    "forest": cascades(pairs(" ", ",")),
    "root user,time": cascades(pairs(" ", ",", " ")),
    "root,user,time": cascades(pairs(" ", ",", ",")),
    "user time,user time": cascades(pairs(",", " ")),
    "root user time,user time": cascades(pairs(",", " ", " ")),
    "root user time user time": cascades(pairs(" ", " ", " ")),
    "deephawkes": cascades(paths),
    "array of histories": listed([{"values": words(n, 4).split()} for n in range(40)]),
    "array of events": listed(
        [{"session": n, "item": word, "time": 10 * n + p} for n in range(40) for p, word in enumerate(words(n).split())]
    ),
}
PUBLISHED = {
    "movielens 1m": visits(lambda user, item, time: f"{user}::{item}::{1 + item % 5}::{time}"),
    "movielens 100k": visits(lambda user, item, time: f"{user}\t{item}\t{1 + item % 5}\t{time}"),
    "movielens 20m": "userId,movieId,rating,timestamp\n"
    + visits(lambda user, item, time: f"{user},{item},{1 + item % 5}.5,{time}"),
    "amazon": visits(lambda user, item, time: f"A{user:013},B{item:09},{1 + item % 5}.0,{time}"),
    "amazon 2018": visits(lambda user, item, time: f"B{item:09},A{user:013},{1 + item % 5}.0,{time}"),
    "taobao": visits(lambda user, item, time: f"{user},{item},7,pv,{time}"),
    "gowalla": visits(
        lambda user, item, time: f"{user}\t{moment(time, '%Y-%m-%dT%H:%M:%SZ')}\t30.2\t-97.7\t{1000 + item}"
    ),
    "foursquare": visits(
        lambda user, item, time: (
            f"{user}\t{venue(item)}\t{venue(99)}\tBar\t40.7\t-74.0\t-240\t"
            f"{moment(time, '%a %b %d %H:%M:%S +0000 %Y')}"
        )
    ),
    "foursquare, the world": visits(
        lambda user, item, time: f"{user}\t{venue(item)}\t{moment(time, '%a %b %d %H:%M:%S +0000 %Y')}\t-240"
    ),
    "yoochoose": visits(
        lambda user, item, time: f"{user},{moment(time, '%Y-%m-%dT%H:%M:%S.000Z')},{214536000 + item},0"
    ),
    "yoochoose buys": visits(
        lambda user, item, time: f"{user},{moment(time, '%Y-%m-%dT%H:%M:%S.000Z')},{214536000 + item},99,1"
    ),
    "retailrocket": "timestamp,visitorid,event,itemid,transactionid\n"
    + visits(lambda user, item, time: f"{1000 * time},{user},view,{item},"),
    "otto": "".join(
        json.dumps({"session": n, "events": [{"aid": (n + s) % 12, "ts": 1_659_304_800_025 + s} for s in (0, 1, 2)]})
        + "\n"
        for n in range(30)
    ),
    "s3-rec": "".join(
        f"{n + 1} {' '.join(str(1 + (n + s * (1 + n % 3)) % 12) for s in range(5))}\n" for n in range(40)
    ),
    "sasrec": visits(lambda user, item, time: f"{user} {item + 1}"),
    "mind": "".join(
        f"{n}\tU{n % 12}\t{moment(1_573_800_000 + 3600 * n, '%m/%d/%Y %I:%M:%S %p')}\tN1 N2\t"
        f"N{n % 7}-1 N{(n + 3) % 7}-0\n"
        for n in range(60)
    ),
}  # fmt: skip
CLASSIFY = {
    "sentiment140": "".join(
        f'"{n % 2 * 4}","{n}","Mon Apr 06 22:19:{n % 60:02} PDT 2009","NO_QUERY","ann","{words(n)}, {words(n + 1)}"\n'
        for n in range(60)
    ),
    "stance": "ID\tTarget\tTweet\tStance\n"
    + "".join(f"{n}\tClimate\t{words(n)}\t{('AGAINST', 'FAVOR', 'NONE')[n % 3]}\n" for n in range(60)),
    "doccano": "".join(json.dumps({"id": n, "text": words(n), "label": ["ab"[n % 2]]}) + "\n" for n in range(60)),
    "label studio": listed(
        [
            {
                "id": n,
                "data": {"text": words(n)},
                "annotations": [
                    {
                        "result": [
                            {
                                "type": "choices",
                                "from_name": "tone",
                                "to_name": "text",
                                "value": {"choices": ["ab"[n % 2]]},
                            }
                        ]
                    }
                ],
            }
            for n in range(60)
        ]
    ),
    "trec": "".join(f"{('DESC:def', 'NUM:count', 'HUM:ind')[n % 3]} {words(n)} ?\n" for n in range(60)),
    "sst": "".join(f"{n % 5} {words(n)} .\n" for n in range(60)),
    "ag news": "".join(f'"{n % 4 + 1}","{words(n, 3)}","{words(n + 1)}, ""said"""\n' for n in range(60)),
    "yelp": "".join(f'"{n % 2 + 1}","{words(n)}, and {words(n + 1)}"\n' for n in range(60)),
    "sick": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    + "".join(f"{n}\t{words(n)}\t{words(n + 1)}\t3.5\t{('NEUTRAL', 'ENTAILMENT')[n % 2]}\n" for n in range(60)),
    "array": listed([{"text": words(n), "label": "ab"[n % 2]} for n in range(60)]),
}
SUGGEST = {
    "rows of turns": "conversation,turn,text\n"
    + "".join(f"{n},{step},{text}\n" for n, own in enumerate(TURNS) for step, text in enumerate(own)),
    "cast": listed(
        [
            {"number": n, "turn": [{"number": s, "raw_utterance": t} for s, t in enumerate(own)]}
            for n, own in enumerate(TURNS)
        ]
    ),
    "messages": "".join(
        json.dumps({"messages": [{"role": "user", "content": text} for text in own]}) + "\n" for own in TURNS
    ),
    "phrases": "".join(json.dumps({"values": own}) + "\n" for own in TURNS),
    "array of rows": listed(
        [{"user": n, "session": n, "query": text} for n, own in enumerate(TURNS) for text in own],
    ),
}
FILES = [
    *((task, model, name, text) for task, model, files in (
        ("next", "markov", NEXT | PUBLISHED), ("classify", "tfidf", CLASSIFY),
        ("suggest", "most-frequent-next", SUGGEST),
    ) for name, text in files.items()),
]  # fmt: skip
FOUND = {"next": "sequences", "classify": "texts", "suggest": "queries"}


@pytest.mark.parametrize(("task", "model", "name", "text"), FILES, ids=[f"{row[0]}, {row[2]}" for row in FILES])
def test_checked_and_learned_as_it_is(
    task: str, model: str, name: str, text: str, ensue: Ensue, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    path.write_text(text)
    ran = ensue("check", path, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert FOUND[task] in found, "the task is known by the shape"
    assert found["understood"]["layout"] in ran.lines[0]
    options = ["--set", "min_users=1"] if task == "suggest" else []  # few people typed these queries
    ran = ensue("fit", task, path, "-o", tmp_path / "m", "--model", model, "--device=cpu", *options)
    assert ran.code == 0, ran.err
    for command in (["evaluate"], ["predict", "-k", "2"]):
        ran = ensue(command[0], tmp_path / "m", path, *command[1:], "--json")
        assert ran.code == 0, ran.err


def test_an_array_on_stdin_is_answered_a_record_each(ensue: Ensue, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text(NEXT["forest"])
    ran = ensue("fit", "next", tmp_path / "data.txt", "-o", tmp_path / "m", "--model=markov", "--device=cpu")
    assert ran.code == 0, ran.err
    records = [{"values": ["u1", "u4"]}, {"values": ["u3"]}]
    lines = "\n".join(map(json.dumps, records))
    expected = ensue("predict", tmp_path / "m", "--json", stdin=lines)
    assert expected.code == 0 and len(expected.out.splitlines()) == 2
    for text in (json.dumps(records), json.dumps(records, indent=2), f"\n{json.dumps(records)}\n"):
        assert ensue("predict", tmp_path / "m", "--json", stdin=text).out == expected.out
