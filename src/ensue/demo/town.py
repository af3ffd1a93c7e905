"""One made-up event as five logs that agree with each other: a bridge closes; a town posts, passes on, reads, searches.

The same sixty-four people, the same articles and the same two weeks are in all of them: who posts is the first of a
cascade, nobody reads an article before it is out, and people read and search what they care for. All that was drawn is
kept, so every answer has a truth to be compared with. The texts are those of ``town.json``.

Readers follow known paths through known items: somebody with an interest goes along its path, now and then jumps to
another item of it, and sometimes to any item at all. Paths share items, so where somebody goes from one depends on what
came before it: a rule that looks at the latest item alone is not enough. Nobody takes an item twice.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index, Times
from ensue.data.queries.dataset import Queries
from ensue.data.queries.rows import count_words
from ensue.demo.cascades import HOUR, CascadeWorld, make_cascades
from ensue.metrics import Floats
from ensue.records import Article, History, Post, Text
from ensue.vocabulary import FIRST

NEXT_ON_PATH, ON_PATH = 0.72, 0.2
"""The chance to go on along the path, and that of any item left on it; what is left over goes to all items."""


@dataclass(frozen=True)
class Paths:
    """The paths of all interests, and their fractions of sessions.

    Attributes:
        paths: interest -> its items in order.
        shares: interest -> the share of sessions that have it; they sum to 1.
    """

    paths: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, float]

    @property
    def items(self) -> tuple[str, ...]:
        """All distinct items, in order of first appearance."""
        return tuple(dict.fromkeys(item for path in self.paths.values() for item in path))

    def step(self, interest: str, done: Sequence[str], allowed: Collection[str]) -> Times:
        """Return the (items,) probabilities of the next item for a reader with this interest.

        Args:
            interest: one of ``paths``.
            done: items taken so far, oldest first.
            allowed: items that are there yet; one of them at least is not done.
        """
        items = self.items
        path = self.paths[interest]
        # 1 where an item is published and not read yet.
        open_: Times = np.array([item in allowed and item not in done for item in items], np.float64)
        onwards: Times = open_ * np.array([item in path for item in items], float)
        even: Times = open_ / open_.sum()
        if not onwards.any():
            return even
        # Three parts: any open item, any item of the interest, and the next one of its path.
        chances: Times = even * (1 - NEXT_ON_PATH - ON_PATH)
        chances += onwards / onwards.sum() * ON_PATH
        chances[items.index(self._next_on_path(path, done, allowed))] += NEXT_ON_PATH
        return chances

    def chances(self, done: Sequence[str], allowed: Collection[str]) -> Times:
        """Return the (items,) probabilities of the next item for a reader of unknown interest.

        This is the Bayes-optimal prediction: interests are weighted by the likelihood of the session.
        """
        # Bayes: the prior of each interest times the likelihood of what was done.
        weights = {
            interest: share * self._likelihood(interest, done, allowed) for interest, share in self.shares.items()
        }
        total = sum(weights.values())
        return np.sum([w / total * self.step(name, done, allowed) for name, w in weights.items()], axis=0)

    def walk(
        self, interest: str, steps: int, allowed: Collection[str], generator: np.random.Generator
    ) -> tuple[str, ...]:
        """Return ``steps`` items, or all that are allowed."""
        done: list[str] = []
        while len(done) < min(steps, len(allowed)):
            done.append(self.items[generator.choice(len(self.items), p=self.step(interest, done, allowed))])
        return tuple(done)

    def _likelihood(self, interest: str, done: Sequence[str], allowed: Collection[str]) -> float:
        columns = [self.items.index(item) for item in done]
        steps = (self.step(interest, done[:at], allowed)[column] for at, column in enumerate(columns))
        return float(np.prod(list(steps)))

    @staticmethod
    def _next_on_path(path: Sequence[str], done: Sequence[str], allowed: Collection[str]) -> str:
        """Return the first open item after the latest one of the path that was taken, else the first open item."""
        # The item of the path that was done last, not the one that is furthest along it.
        latest = max(
            (path.index(item) for item in done if item in path), default=-1, key=lambda at: done.index(path[at])
        )
        open_items = [item for item in path if item in allowed and item not in done]
        return next((item for item in open_items if path.index(item) > latest), open_items[0])


TownFile: TypeAlias = Mapping[str, Any]
"""The town as its file of JSON holds it."""
DAY = 24 * HOUR
VALID_DAY = 11
"""Days 0 to 10 are learned, day 11 stops the training, days 12 and 13 are the test."""
ABOUT_EVENT, OTHER_NEWS = 0.6, 0.2
"""Shares of posts about the event and about other news; the rest is about nothing that is in the paper."""
MISREAD = 0.05
"""Share of feelings that are labelled wrongly: people who label texts do not agree either."""
MIXED = 4.0
"""Concentration of the Dirichlet distribution of feelings about an article: near 0, all feel the same."""
REMARKS = (0.2, 0.4, 0.4)
"""Shares of felt posts with none, one and two sentences more that say so."""
LOYAL = 0.85
"""Share of what people read and search that belongs to the interest they are known for."""
FIRST_WORDING = 0.65
"""Share of searches in the most common wording; the others share the rest."""


@dataclass(frozen=True, slots=True)
class Written:
    """A post, its author, its time (seconds since 1970), what was felt and the label; none of other news."""

    post: Post
    author: str
    time: float
    feeling: str | None
    label: str | None


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a person, and the interest behind it."""

    history: History
    person: str
    day: int
    interest: str


@dataclass(frozen=True, eq=False)
class Town:
    """The event, its people, and their logs.

    Attributes:
        title: of the event.
        summary: a few sentences.
        begins: seconds since 1970 of day 0.
        people: name -> interest.
        articles: in order of publication.
        published: id -> day.
        interests: id of an article -> the interest it is for.
        posts: in order of time; post ``i`` is what cascade ``i`` passes on.
        cascades: who passed each post on, when, and the true edges.
        reading: sessions of articles, in order of time; values are ids.
        searching: sessions of queries, in order of time.
        read_paths: the truth behind ``reading``.
        search_paths: the truth behind ``searching``; its items are what is looked for, ``wordings`` how it is typed.
        wordings: what is looked for -> how it is typed, the most common first.

    Example:
        >>> from ensue.demo.town import make_town
        >>> town = make_town(num_posts=20, num_reads=20, num_searches=20)
        >>> len(town.posts), len(town.reading), len(town.searching)
        (20, 20, 20)
    """

    title: str
    summary: str
    begins: float
    people: Mapping[str, str]
    articles: tuple[Article, ...]
    published: Mapping[str, int]
    interests: Mapping[str, str]
    posts: tuple[Written, ...]
    cascades: CascadeWorld
    reading: tuple[Session, ...]
    searching: tuple[Session, ...]
    read_paths: Paths
    search_paths: Paths
    wordings: Mapping[str, tuple[str, ...]]

    @property
    def parts(self) -> tuple[Histories, Histories, Histories]:
        """The cascades for training, validation and test."""
        return self.cascades.train, self.cascades.valid, self.cascades.test

    def day_of(self, time: float) -> int:
        """Return the day of a time."""
        return int((time - self.begins) // DAY)

    def allowed(self, day: int) -> frozenset[str]:
        """Return the articles that are published."""
        return frozenset(name for name, out in self.published.items() if out <= day)

    def next_read(self, done: tuple[str, ...], day: int) -> dict[str, float]:
        """Return the true probabilities of the next article, given a session alone."""
        return dict(zip(self.read_paths.items, self.read_paths.chances(done, self.allowed(day)).tolist(), strict=True))

    def next_search(self, done: tuple[str, ...]) -> dict[str, float]:
        """Return the true probabilities of the next query, given a session alone."""
        # From what is typed to what is looked for.
        meant = {wording: aim for aim, wordings in self.wordings.items() for wording in wordings}
        items = self.search_paths.items
        chances = self.search_paths.chances([meant[query] for query in done if query in meant], items)
        return {
            wording: chance * share
            for aim, chance in zip(items, chances.tolist(), strict=True)
            for wording, share in zip(self.wordings[aim], _shares(len(self.wordings[aim])), strict=True)
        }

    def next_sharer(self, done: tuple[str, ...]) -> dict[str, float]:
        """Return the number of sharers who may infect each other person: probabilities are in proportion to it.

        Delays are exponential with one rate, so how long somebody has been exposed does not matter.
        """
        heard = dict.fromkeys(self.people, 0.0)
        for source, target in self.cascades.edges:
            if source in done and target not in done:
                heard[target] += 1.0
        return {name: count for name, count in heard.items() if name not in done}


def make_town(*, seed: int = 0, num_posts: int = 3000, num_reads: int = 3400, num_searches: int = 2200) -> Town:
    """Return the town of an event; the same seed gives the same one.

    Example:
        >>> from ensue.demo.town import make_town
        >>> make_town(num_posts=20, num_reads=20, num_searches=20, seed=1).posts[0].post.id
        'p0000'
    """
    town = json.loads((files("ensue.demo") / "town.json").read_text(encoding="utf-8"))
    # A seed for each part: to draw more posts changes no session.
    seeds = iter(np.random.default_rng([seed, 1]).integers(0, 2**31, 8).tolist())
    names = town["people"]
    interests = list(town["interests"])
    order = np.random.default_rng(next(seeds)).permutation(len(names))
    people = {name: interests[number % len(interests)] for name, number in zip(names, order.tolist(), strict=True)}
    begins = datetime.fromisoformat(town["begins"]).replace(tzinfo=UTC).timestamp()
    articles = tuple(Article(article["body"], article["id"], article["title"]) for article in town["articles"])
    published = {article["id"]: article["day"] for article in town["articles"]}
    cascades = make_cascades(num_users=len(names), num_cascades=num_posts, seed=seed, names=names)
    posts = _posts(town, cascades, people, begins, np.random.default_rng(next(seeds)))
    shares = _interest_shares(people)
    read_paths, search_paths = (
        Paths({name: tuple(interest[key]) for name, interest in town["interests"].items()}, shares)
        for key in ("reads", "searches")
    )
    wordings = {aim: tuple(phrases) for aim, phrases in town["searches"].items()}
    base = Town(
        town["title"], town["summary"], begins, people, articles, published,
        {article["id"]: article["interest"] for article in town["articles"]},
        posts, _dated(cascades, posts), (), (), read_paths, search_paths, wordings,
    )  # fmt: skip
    reading = _reading(base, num_reads, np.random.default_rng(next(seeds)))
    searching = _searching(base, num_searches, town["private"], np.random.default_rng(next(seeds)))
    return replace(base, reading=reading, searching=searching)


def histories_of(sessions: tuple[Session, ...]) -> Histories:
    """Return sessions as columns."""
    return Histories.of(session.history for session in sessions)


def queries_of(sessions: tuple[Session, ...]) -> Queries:
    """Return sessions of queries as columns, with the number of users of each query and word."""
    histories = Histories.of(session.history for session in sessions)
    values = pl.Series(histories.vocabulary.values, dtype=pl.String)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(session.person for session in sessions))}
    people = np.array([numbers[session.person] for session in sessions], np.int64)
    users = np.repeat(people, histories.lengths)
    ids: Index = histories.ids.astype(np.int64) - FIRST
    # One row per query and user, so that bincount counts users and not searches.
    typed = pl.DataFrame({"id": ids, "user": users}).unique()["id"].to_numpy()
    words, word_users = count_words(values, ids, users)
    return Queries(histories, np.bincount(typed, minlength=len(values)), words, word_users, people)


def texts_of(posts: tuple[Written, ...]) -> list[Text]:
    """Return the labelled posts as texts."""
    return [Text((post.post.text,), post.label, post.post.id) for post in posts if post.label is not None]


def _posts(
    town: TownFile, cascades: CascadeWorld, people: Mapping[str, str], begins: float, generator: np.random.Generator
) -> tuple[Written, ...]:
    """Return one post per cascade, written by its first user, in order of time."""
    splits = (cascades.train, cascades.valid, cascades.test)
    authors = [record.values[0] for split in splits for record in split.records()]
    # Posts begin when the bridge closes: on day 1 in the evening.
    times = np.sort(generator.uniform(begins + 1.75 * DAY, begins + town["days"] * DAY, len(authors)))
    moods = {article["id"]: generator.dirichlet([MIXED] * len(town["feelings"])) for article in town["articles"]}
    posts = []
    for number, (author, time) in enumerate(zip(authors, times.tolist(), strict=True)):
        day = int((time - begins) // DAY)
        article, feeling = _subject(town, people[author], day, moods, generator)
        text = _text(town, article, feeling, generator)
        label = feeling
        if feeling is not None and generator.random() < MISREAD:
            label = str(generator.choice([other for other in town["feelings"] if other != feeling]))
        article_ids = (article["id"],) if article else ()
        posts.append(Written(Post(text, f"p{number:04d}", article_ids), author, time, feeling, label))
    return tuple(posts)


def _subject(
    town: TownFile, interest: str, day: int, moods: Mapping[str, Floats], generator: np.random.Generator
) -> tuple[TownFile | None, str | None]:
    """Return the article of a post, and the feeling of a post about the event."""
    draw = generator.random()
    if draw >= ABOUT_EVENT + OTHER_NEWS:
        return None, None
    event = draw < ABOUT_EVENT
    out = [item for item in town["articles"] if item["day"] <= day and (item["interest"] != "town life") == event]
    if not out:
        return None, None
    # People write about what interests them, and about what is new.
    weights = np.array([(3.0 if item["interest"] == interest else 1.0) / (1 + day - item["day"]) for item in out])
    article = out[generator.choice(len(out), p=weights / weights.sum())]
    if not event:
        return article, None
    feelings = list(town["feelings"])
    return article, feelings[generator.choice(len(feelings), p=moods[article["id"]])]


def _text(town: TownFile, article: TownFile | None, feeling: str | None, generator: np.random.Generator) -> str:
    """Return an opener, a sentence, up to two more that express the feeling, and a closer; most may be empty."""
    opener, closer = (str(generator.choice(town[name])) for name in ("openers", "closers"))
    topic = str(generator.choice(article["topics"])) if article else ""
    if feeling is None:
        sentences = [str(generator.choice(town["neutral" if article else "chatter"]))]
        words = {}
    else:
        mood = town["feelings"][feeling]
        common = town["sentences"]
        other_words = [word for name, other in town["feelings"].items() if name != feeling for word in other["mood"]]
        kinds = ["about", *["remarks"] * int(generator.choice(len(REMARKS), p=REMARKS))]
        sentences = []
        for kind in kinds:
            source = common if generator.random() < mood["common"] else mood
            sentences.append(str(generator.choice(source[kind])))
        # The order of sentences says nothing about the feeling.
        generator.shuffle(sentences)
        words = {**town["words"], **mood, "other": other_words}
    sentences = [_filled(sentence, {**words, "topic": [topic]}, generator) for sentence in sentences]
    return " ".join(text for text in (opener, *sentences, closer) if text)


def _filled(sentence: str, words: Mapping[str, Sequence[str]], generator: np.random.Generator) -> str:
    """Return a sentence with a word in place of each {name}, capitalised where the name is."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        word = str(generator.choice(words[name.lower()]))
        return word[0].upper() + word[1:] if name[0].isupper() else word

    return re.sub(r"\{(\w+)\}", fill, sentence)


def _dated(cascades: CascadeWorld, posts: tuple[Written, ...]) -> CascadeWorld:
    """Return the cascades with the ids of their posts, from the times of these on."""
    splits = []
    low = 0
    for split in (cascades.train, cascades.valid, cascades.test):
        written = posts[low : low + len(split)]
        low += len(split)
        # Cascades are drawn from time 0 on; here each begins when its post is written.
        starts = np.repeat([post.time for post in written], split.lengths)
        names = pl.Series([post.post.id for post in written], dtype=pl.String)
        splits.append(replace(split, times=split.times + starts, names=names))
    train, valid, test = splits
    return replace(cascades, train=train, valid=valid, test=test)


def _interest_shares(people: Mapping[str, str]) -> dict[str, float]:
    """Return the fraction of sessions of each interest: those of loyal people and of all others."""
    kinds = list(people.values())
    distinct = dict.fromkeys(kinds)
    return {name: LOYAL * kinds.count(name) / len(kinds) + (1 - LOYAL) / len(distinct) for name in distinct}


def _reading(story: Town, number: int, generator: np.random.Generator) -> tuple[Session, ...]:
    """Return sessions of three to seven articles."""
    visits = []
    for person, interest, time in _visits(story, number, 2, generator):
        day = story.day_of(time)
        values = story.read_paths.walk(interest, int(generator.integers(3, 8)), story.allowed(day), generator)
        visits.append((person, interest, time, values))
    return _sessions(story, visits, "r", (20.0, 240.0), generator)


def _searching(story: Town, number: int, private: list[str], generator: np.random.Generator) -> tuple[Session, ...]:
    """Return sessions of two to five queries; one in a hundred ends with a private query."""
    visits = []
    for person, interest, time in _visits(story, number, 2, generator):
        aims = story.search_paths.walk(interest, int(generator.integers(2, 6)), story.search_paths.items, generator)
        typed = [str(generator.choice(story.wordings[aim], p=_shares(len(story.wordings[aim])))) for aim in aims]
        visits.append((person, interest, time, tuple(typed)))
    # Private queries go to different people: one that several typed would be shown.
    visits_of = defaultdict(list)
    for row, (person, *_) in enumerate(visits):
        visits_of[person].append(row)
    for query, person in zip(private, generator.choice(list(visits_of), len(private), replace=False), strict=True):
        row = visits_of[str(person)][0]
        visits[row] = (*visits[row][:3], (*visits[row][3], query))
    return _sessions(story, visits, "s", (8.0, 60.0), generator)


def _visits(story: Town, number: int, first_day: int, generator: np.random.Generator) -> list[tuple[str, str, float]]:
    """Return (person, interest, time) of each visit, between seven in the morning and eleven at night."""
    names = list(story.people)
    interests = list(story.read_paths.paths)
    days = np.sort(generator.integers(first_day, 14, number))
    visits = []
    for day in days.tolist():
        person = str(generator.choice(names))
        interest = story.people[person] if generator.random() < LOYAL else str(generator.choice(interests))
        visits.append((person, interest, story.begins + day * DAY + float(generator.uniform(7, 23)) * HOUR))
    return sorted(visits, key=lambda visit: visit[2])


def _sessions(
    story: Town,
    visits: list[tuple[str, str, float, tuple[str, ...]]],
    letter: str,
    pause: tuple[float, float],
    generator: np.random.Generator,
) -> tuple[Session, ...]:
    """Return visits as sessions, with ``pause`` seconds between values."""
    sessions = []
    for number, (person, interest, time, values) in enumerate(visits):
        pauses = generator.uniform(*pause, len(values) - 1) if len(values) > 1 else np.empty(0)
        times = tuple((time + np.concatenate([[0.0], np.cumsum(pauses)])).round().tolist())
        history = History(values, times, f"{letter}{number:04d}")
        sessions.append(Session(history, person, story.day_of(time), interest))
    return tuple(sessions)


def _shares(count: int) -> list[float]:
    """Return the fraction of searches that use each wording."""
    return [1.0] if count == 1 else [FIRST_WORDING, *[(1 - FIRST_WORDING) / (count - 1)] * (count - 1)]
