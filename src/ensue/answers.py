"""What goes out: frozen answers and explanations; their JSON is a line of a file, or what the service replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from ensue.lines import line_of, printable

_SHOWN = 3


class Line:
    """What is written as a line of JSON."""

    __slots__: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One line of JSON, all fields as they stand."""
        return line_of(self)


@dataclass(frozen=True, slots=True)
class Heed:
    """One earlier event an answer leaned on.

    ``share`` is the event's part of the attention, in [0, 1]. ``score_drop`` is the choice's score less its score when
    the same question is asked without the event, so it is above 0 where the score falls (a deletion test); ``None``
    where it was not measured.

    Example:
        >>> from ensue import Heed
        >>> Heed("ann", position=0, share=0.9, score_drop=0.3).score_drop
        0.3
    """

    value: str
    position: int
    share: float
    score_drop: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible next value, its probability, and the earlier events it leaned on, most heeded first.

    Example:
        >>> from ensue import Choice, Heed
        >>> choice = Choice("cat", 0.5, (Heed("ann", 0, 0.9), Heed("bob", 1, 0.1)))
        >>> choice.heeded[0].value
        'ann'
    """

    value: str
    score: float
    heeded: tuple[Heed, ...] = ()


class Chosen(Protocol):
    """One of several."""

    @property
    def value(self) -> str:
        """What it is."""
        ...

    @property
    def score(self) -> float:
        """What orders it."""
        ...


class Choices(Line):
    """Choices for one record: shows itself in one line, and in a notebook as a table."""

    __slots__ = ()
    choices: Sequence[Chosen]
    known: int
    given: int
    id: str

    def __repr__(self) -> str:
        """The first three, and how many more there are."""
        listed = [f"{printable(choice.value)} {choice.score:.3f}" for choice in self.choices[:_SHOWN]]
        more = [f"{len(self.choices) - _SHOWN} more"] if len(self.choices) > _SHOWN else []
        name = f"{printable(self.id)}, " if self.id else ""
        said = ", ".join(listed + more) or "nothing"
        return f"{type(self).__name__}({name}knows {self.known} of {self.given}: {said})"

    def _repr_html_(self) -> str:
        """All of them, and what each leaned on most."""
        rows = []
        for place, choice in enumerate(self.choices, 1):
            heeded = ", ".join(f"{heed.value} {heed.share:.0%}" for heed in getattr(choice, "heeded", ())[:_SHOWN])
            cells = (str(place), choice.value, f"{choice.score:.4f}", heeded)
            rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
        head = "<tr><th></th><th>choice</th><th>score</th><th>leaned on</th></tr>"
        said = escape(f"{f'{self.id}: ' if self.id else ''}{self.known} of {self.given} are known to the model")
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><caption>{said}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Choices):
    """The choices for one record, best first, and how many of its values the model knows.

    Example:
        >>> from ensue import Answer, Choice
        >>> answer = Answer((Choice("bob", 0.5, ()),), known=1, given=2)
        >>> answer.choices[0].value, f"{answer.known} of {answer.given} ids known"
        ('bob', '1 of 2 ids known')
    """

    choices: tuple[Choice, ...]
    known: int = 0
    given: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One event that may come: the likeliest values, best first, the chance that none comes, and when.

    ``after`` is seconds since the event before, in one of ten cases less, in half, in nine of ten; empty without times.
    """

    choices: tuple[Choice, ...]
    stop: float
    after: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast(Line):
    """A history rolled forward, step by step; each step takes the first choice of the one before as having come."""

    steps: tuple[Foreseen, ...]
    known: int = 0
    given: int = 0
    id: str = ""


class Explained(Line):
    """What one answer leaned on: shows itself in two lines, and in a notebook as two tables."""

    __slots__ = ()
    answer: Choices

    @property
    def leaned_on(self) -> list[tuple[str, float]]:
        """The parts of what was asked, in their order, and how much each counted for the answer."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The three parts that counted most, then the answer."""
        strongest = sorted(self.leaned_on, key=lambda part: -part[1])[:_SHOWN]
        listed = ", ".join(f"{printable(name)} {weight:.2f}" for name, weight in strongest) or "nothing"
        return f"{type(self).__name__}(leaned on {listed} of {len(self.leaned_on)})\n{self.answer!r}"

    def _repr_html_(self) -> str:
        """All parts with a bar each, then the answer."""
        most = max((abs(weight) for _, weight in self.leaned_on), default=0.0) or 1.0
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{weight:.3f}</td>"
            f'<td><meter max="1" value="{max(weight, 0.0) / most:.3f}"></meter></td></tr>'
            for name, weight in self.leaned_on
        )
        head = "<caption>leaned on: weights, not causes</caption>"
        return f"<table>{head}<tbody>{rows}</tbody></table>{self.answer._repr_html_()}"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Explained):
    """What a model leaned on inside one history.

    ``dependency[j][k]`` is how much event j leaned on the earlier event k (rows sum to 1, or to 0 for the first);
    ``influence[k]`` how much the answer leaned on event k. These are weights, not causes: ``answer`` carries a deletion
    test for its most heeded events.

    Example:
        >>> from ensue import Explanation, History, make, read
        >>> predictor = make("next", "markov")
        >>> for report in predictor.fit(read("clicks.csv")[0]):
        ...     pass
        >>> (explanation,) = predictor.explain([History(("crack-explained", "bridge-history"))])
        >>> isinstance(explanation, Explanation), explanation.values
        (True, ('bridge-history',))
    """

    values: tuple[str, ...]
    times: tuple[float, ...]
    dependency: tuple[tuple[float, ...], ...]
    influence: tuple[float, ...]
    answer: Answer

    @property
    def leaned_on(self) -> list[tuple[str, float]]:
        """Events, and how much the answer leaned on each."""
        return [*zip(self.values, self.influence, strict=False)]


@dataclass(frozen=True, slots=True, repr=False)
class QueryExplanation(Explained):
    """Which of the latest queries' words each suggested word leaned on: weights, not causes.

    ``weights[i]``: of suggested word (or piece) i a share for each word of all queries; empty where none was read.

    Example:
        >>> from ensue import History, QueryExplanation, make, read_queries
        >>> predictor = make("suggest", "most-frequent-next")
        >>> for report in predictor.fit(read_queries("searches.tsv")[0]):
        ...     pass
        >>> (explanation,) = predictor.explain([History(("ferry times",))])
        >>> isinstance(explanation, QueryExplanation)
        True
    """

    queries: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    suggested: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    answer: Answer

    @property
    def leaned_on(self) -> list[tuple[str, float]]:
        """Words of the queries, and the mean of what the suggested words leaned on each."""
        every = [word for words in self.words for word in words]
        means = [sum(column) / len(column) for column in zip(*self.weights, strict=False)]
        return [*zip(every, means, strict=False)]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Drop of the best label's probability when the words that it leaned on most are taken out together.

    ``words`` is how many went, ``score_drop`` how far the probability falls without them, and ``random`` how far it
    falls on average, over ``draws`` draws, without as many words at random: weights that mean something make
    ``score_drop`` the larger.

    Example:
        >>> from ensue import Deletion
        >>> test = Deletion(words=3, score_drop=0.31, random=0.03, draws=5)
        >>> test.score_drop > test.random
        True
    """

    words: int
    score_drop: float
    random: float
    draws: int


@dataclass(frozen=True, slots=True, repr=False)
class TextAnswer(Choices):
    """The labels for one text or pair, likeliest first, and how many of its words the model knows.

    A :class:`Heed` of a choice is a word; its position counts the words, and goes on in the second text of a pair.

    Example:
        >>> from ensue import Choice, TextAnswer
        >>> TextAnswer((Choice("angry", 0.7, ()), Choice("joking", 0.3, ())), known=4, given=5).choices[0].value
        'angry'
    """

    choices: tuple[Choice, ...]
    known: int = 0
    given: int = 0
    id: str = ""
    deletion: Deletion | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One post that may discuss an article, or one article that a post may be about.

    ``score`` orders; ``probability`` is P(relevant), or ``None`` where nothing was labelled to learn it from.
    ``sentence`` is the article's sentence that the post is closest to, ``copy_of`` the id of the earlier post that this
    one repeats, or empty.

    Example:
        >>> from ensue import Link
        >>> link = Link("ferry-night", 2.5, 0.93, sentence="Ferry adds night crossings")
        >>> link.probability, link.copy_of
        (0.93, '')
    """

    value: str
    score: float
    probability: float | None = None
    sentence: str = ""
    copy_of: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class LinkAnswer(Choices):
    """What belongs to one article or to one post, best first, and how many of its words the model knows.

    Example:
        >>> from ensue import Link, LinkAnswer
        >>> LinkAnswer((Link("ferry-night", 2.5, 0.93),), known=4, given=5).choices[0].value
        'ferry-night'
    """

    choices: tuple[Link, ...]
    known: int = 0
    given: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """Words that were pooled together: a sentence of a document, a whole short text, or a stretch of a long one.

    ``side`` is 1 in the second text of a pair. ``share`` is the passage's part of the attention of its side (a side's
    passages sum to 1), ``weights`` the words' parts within it. ``graph[i][j]`` is how much of its weight word j hands
    to word i (columns sum to 1); empty for poolings without a graph.

    Example:
        >>> from ensue import Passage
        >>> Passage(("a", "fine", "film"), (0.1, 0.8, 0.1)).share
        1.0
    """

    words: tuple[str, ...]
    weights: tuple[float, ...]
    graph: tuple[tuple[float, ...], ...] = ()
    share: float = 1.0
    side: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class TextExplanation(Explained):
    """What a model leaned on inside one text or pair, passage by passage.

    ``graph`` is between the passages of a document, as that of a passage is between its words; empty where there is
    none, or where the document is so long that it was pooled in parts. These are weights, not causes: ``answer``
    carries the deletion tests.

    Example:
        >>> from ensue import Text, TextExplanation, make, read_texts
        >>> predictor = make("classify", "tfidf")
        >>> for report in predictor.fit(read_texts("coded.csv")[0]):
        ...     pass
        >>> (explanation,) = predictor.explain([Text(("Nobody tells us why",))])
        >>> isinstance(explanation, TextExplanation), explanation.answer.choices[0].value
        (True, 'angry')
    """

    passages: tuple[Passage, ...]
    graph: tuple[tuple[float, ...], ...]
    answer: TextAnswer

    @property
    def leaned_on(self) -> list[tuple[str, float]]:
        """Words, each with its weight times the share of its passage."""
        return [
            (word, weight * part.share)
            for part in self.passages
            for word, weight in zip(part.words, part.weights, strict=False)
        ]


@dataclass(frozen=True, slots=True, repr=False)
class LinkExplanation(Explained):
    """What the best article for a post leaned on.

    ``score_drops[i]`` is how far the score of the best article falls when word i of the post is taken out: a deletion
    test.
    ``sentences`` are the article's sentences closest to the post with their cosines, best first. Words after the first
    sixty are not tested.
    """

    post: str
    words: tuple[str, ...]
    score_drops: tuple[float, ...]
    sentences: tuple[tuple[str, float], ...]
    answer: LinkAnswer

    @property
    def leaned_on(self) -> list[tuple[str, float]]:
        """Words of the post, and how far the best article's score falls without each."""
        return [*zip(self.words, self.score_drops, strict=False)]
