"""Answers and explanations: frozen records whose JSON is a line of a file, or what the service replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import repeat

from ensue.lines import line_of, printable

_NUM_LISTED = 3


class Line:
    """A record that is written as one line of JSON."""

    __slots__: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return one line of JSON with all fields."""
        return line_of(self)


@dataclass(frozen=True, slots=True)
class Attribution:
    """One input event, query or word that a choice attended to.

    ``position`` counts the inputs from 0. ``weight`` is the input's fraction of the attention, in [0, 1].
    ``score_drop`` is the choice's score minus its score without the input (a deletion test): positive where the score
    falls, ``None`` where it was not measured.

    Example:
        >>> from ensue import Attribution
        >>> Attribution("ann", position=0, weight=0.9, score_drop=0.3).score_drop
        0.3
    """

    value: str
    position: int
    weight: float
    score_drop: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One item, query or label, its score, its attributions, largest weight first, and its title.

    ``title`` is empty where the model has no item table with titles.

    Example:
        >>> from ensue import Attribution, Choice
        >>> choice = Choice("cat", 0.5, (Attribution("ann", 0, 0.9), Attribution("bob", 1, 0.1)))
        >>> choice.attributions[0].value
        'ann'
    """

    value: str
    score: float
    attributions: tuple[Attribution, ...] = ()
    title: str = ""


def choices_of(
    values: Sequence[str],
    scores: Iterable[float],
    attributions: Iterable[tuple[Attribution, ...]],
    titles: Iterable[str],
) -> list[Choice]:
    """Return the choices whose fields are in these columns; a call of ``Choice`` for each takes twice as long."""
    choices = [*map(object.__new__, repeat(Choice, len(values)))]
    columns: dict[str, Iterable[object]] = {
        "value": values, "score": scores, "attributions": attributions, "title": titles,
    }  # fmt: skip
    for name, column in columns.items():
        # Set one field of all choices without a step of the interpreter: a deque of length 0 exhausts the map.
        deque(map(getattr(Choice, name).__set__, choices, column), maxlen=0)
    return choices


@dataclass(frozen=True, slots=True, repr=False)
class Choices(Line):
    """Choices for one query: one line as text, a table in a notebook.

    ``in_vocabulary`` of its ``events`` (words, for texts and posts) occurred in the training data.
    """

    id: str = field(default="", kw_only=True)
    choices: Sequence[Choice | Link]
    in_vocabulary: int = 0
    events: int = 0

    def __repr__(self) -> str:
        """Return the first three choices, and how many more there are."""
        listed = [f"{printable(choice.value)} {choice.score:.3f}" for choice in self.choices[:_NUM_LISTED]]
        remainder = [f"{len(self.choices) - _NUM_LISTED} more"] if len(self.choices) > _NUM_LISTED else []
        name = f"{printable(self.id)}, " if self.id else ""
        choices = ", ".join(listed + remainder) or "no choices"
        return f"{type(self).__name__}({name}{self.in_vocabulary} of {self.events} in vocabulary: {choices})"

    def _repr_html_(self) -> str:
        """Return a table of all choices with their largest attributions."""
        rows = []
        for rank, choice in enumerate(self.choices, 1):
            attributions = getattr(choice, "attributions", ())[:_NUM_LISTED]
            weights = ", ".join(f"{attribution.value} {attribution.weight:.0%}" for attribution in attributions)
            name = getattr(choice, "title", "") or choice.value
            cells = (str(rank), name, f"{choice.score:.4f}", weights)
            rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
        head = "<tr><th>rank</th><th>value</th><th>score</th><th>attributions</th></tr>"
        name = f"{self.id}: " if self.id else ""
        caption = escape(f"{name}{self.in_vocabulary} of {self.events} in vocabulary")
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><caption>{caption}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Choices):
    """The next items or queries of one session, best first.

    Example:
        >>> from ensue import Answer, Choice
        >>> answer = Answer((Choice("bob", 0.5, ()),), in_vocabulary=1, events=2)
        >>> answer.choices[0].value, f"{answer.in_vocabulary} of {answer.events} in vocabulary"
        ('bob', '1 of 2 in vocabulary')
    """

    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class VariantAnswer(Answer):
    """The answer of a variant of an experiment (:mod:`ensue.experiments`), over HTTP.

    ``sources`` are the models that the choices of an interleaved list are from; empty for other lists.
    """

    variant: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SimilarSession(Line):
    """A session that is similar to another one: its events, and the cosine of the two, from -1 to 1.

    ``id`` is empty where a model stores its sessions without ids.

    Example:
        >>> from ensue import SimilarSession
        >>> SimilarSession(("a", "b"), 0.9, "s17").values
        ('a', 'b')
    """

    values: tuple[str, ...]
    score: float
    id: str = ""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One forecast event: the likeliest values, best first, the probability that none follows, and the delay.

    ``after`` holds the 10 %, 50 % and 90 % quantiles of the seconds since the previous event; empty without times.
    """

    choices: tuple[Choice, ...]
    stop: float
    after: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast(Line):
    """A session continued step by step: each step assumes that the first choice of the previous one happened."""

    id: str = field(default="", kw_only=True)
    steps: tuple[Foreseen, ...]
    in_vocabulary: int = 0
    events: int = 0


class Explained(Line):
    """An answer with the weights of its inputs: two lines as text, two tables in a notebook."""

    __slots__ = ()
    answer: Choices

    @property
    def input_weights(self) -> list[tuple[str, float]]:
        """The inputs in their order, each with its weight for the answer."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the three inputs of the largest weight, then the answer."""
        # Stable: inputs of equal weight stay in their order.
        strongest = sorted(self.input_weights, key=lambda pair: -pair[1])[:_NUM_LISTED]
        listed = ", ".join(f"{printable(name)} {weight:.2f}" for name, weight in strongest) or "none"
        return f"{type(self).__name__}(weights {listed} of {len(self.input_weights)})\n{self.answer!r}"

    def _repr_html_(self) -> str:
        """Return a table of all inputs with a bar each, then the answer."""
        largest = max((abs(weight) for _, weight in self.input_weights), default=0.0) or 1.0
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{weight:.3f}</td>"
            f'<td><meter max="1" value="{max(weight, 0.0) / largest:.3f}"></meter></td></tr>'
            for name, weight in self.input_weights
        )
        head = "<caption>attention weights, not causes</caption>"
        return f"<table>{head}<tbody>{rows}</tbody></table>{self.answer._repr_html_()}"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Explained):
    """Attention between the events of one session.

    ``dependency[j][k]`` is the weight of the earlier event k for event j (rows sum to 1, or to 0 for the first);
    ``influence[k]`` is the weight of event k for the answer. These are weights, not causes: ``answer`` carries a
    deletion test for the events of the largest weight.

    Example:
        >>> from ensue import NextEvent
        >>> model = NextEvent("markov").fit("clicks.csv")
        >>> (explanation,) = model.explain([["crack-explained", "bridge-history"]])
        >>> explanation.values, explanation.influence
        (('bridge-history',), (1.0,))
    """

    values: tuple[str, ...]
    times: tuple[float, ...]
    dependency: tuple[tuple[float, ...], ...]
    influence: tuple[float, ...]
    answer: Answer

    @property
    def input_weights(self) -> list[tuple[str, float]]:
        """Events, each with its weight for the answer."""
        return [*zip(self.values, self.influence, strict=False)]


@dataclass(frozen=True, slots=True, repr=False)
class QueryExplanation(Explained):
    """Attention of each suggested word to the words of the latest queries: weights, not causes.

    ``weights[i][j]`` is the weight of word j of all queries for suggested word (or piece) i; empty where none was read.

    Example:
        >>> from ensue import QuerySuggester
        >>> model = QuerySuggester("most-frequent-next").fit("searches.tsv")
        >>> (explanation,) = model.explain([["ferry times"]])
        >>> explanation.queries
        ('ferry times',)
    """

    queries: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    suggested: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    answer: Answer

    @property
    def input_weights(self) -> list[tuple[str, float]]:
        """Words of the queries, each with its mean weight over the suggested words."""
        query_words = [word for words in self.words for word in words]
        # (suggested words, query words) weights, transposed: one mean per query word.
        means = [sum(column) / len(column) for column in zip(*self.weights, strict=False)]
        return [*zip(query_words, means, strict=False)]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Drop of the best label's probability when the words of the largest weight are removed together.

    ``words`` is the number of words removed, ``score_drop`` the drop of the probability without them, and ``random``
    the mean drop, over ``draws`` draws, without as many random words. If the weights carry information, ``score_drop``
    is larger than ``random``.

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
    """The labels of one text or pair, likeliest first.

    An :class:`Attribution` of a choice is a word; its position counts on into the second text of a pair.

    Example:
        >>> from ensue import Choice, TextAnswer
        >>> TextAnswer((Choice("angry", 0.7), Choice("joking", 0.3)), in_vocabulary=4, events=5).choices[0].value
        'angry'
    """

    choices: tuple[Choice, ...]
    deletion: Deletion | None = None
    labels: tuple[str, ...] | None = None
    """The labels that the text is predicted to have, likeliest first; ``None`` where every text has one label."""


@dataclass(frozen=True, slots=True)
class Link:
    """One post that may discuss an article, or one article that a post may be about.

    ``score`` orders; ``probability`` is P(relevant), or ``None`` where no labels were there to calibrate it.
    ``sentence`` is the article's sentence closest to the post, ``copy_of`` the id of the earlier post that this one
    repeats, or empty.

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
    """The posts of one article, or the articles of one post, best first.

    Example:
        >>> from ensue import Link, LinkAnswer
        >>> LinkAnswer((Link("ferry-night", 2.5, 0.93),), in_vocabulary=4, events=5).choices[0].value
        'ferry-night'
    """

    choices: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """Words that were pooled together: a sentence of a document, a short text, or a chunk of a long one.

    ``side`` is 1 in the second text of a pair. ``weight`` is the passage's fraction of the attention of its side (a
    side's passages sum to 1), ``weights`` the fractions of its words. ``graph[i][j]`` is the fraction of its weight
    that word j passes to word i (columns sum to 1); empty for poolings without a graph.

    Example:
        >>> from ensue import Passage
        >>> Passage(("a", "fine", "film"), (0.1, 0.8, 0.1)).weight
        1.0
    """

    words: tuple[str, ...]
    weights: tuple[float, ...]
    graph: tuple[tuple[float, ...], ...] = ()
    weight: float = 1.0
    side: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class TextExplanation(Explained):
    """Attention inside one text or pair, passage by passage.

    ``graph`` connects the passages of a document as :attr:`Passage.graph` connects words; empty without a graph, or
    where the document is so long that it was pooled in chunks. These are weights, not causes: ``answer`` carries the
    deletion tests.

    Example:
        >>> from ensue import TextClassifier
        >>> model = TextClassifier("tfidf").fit("coded.csv")
        >>> (explanation,) = model.explain(["Nobody tells us why"])
        >>> explanation.answer.choices[0].value
        'angry'
    """

    passages: tuple[Passage, ...]
    graph: tuple[tuple[float, ...], ...]
    answer: TextAnswer

    @property
    def input_weights(self) -> list[tuple[str, float]]:
        """Words, each with its weight times the weight of its passage."""
        return [
            (word, weight * passage.weight)
            for passage in self.passages
            for word, weight in zip(passage.words, passage.weights, strict=False)
        ]


@dataclass(frozen=True, slots=True, repr=False)
class LinkExplanation(Explained):
    """Deletion test of the words of a post, for its best article.

    ``score_drops[i]`` is the drop of the best article's score without word i of the post; words after the first sixty
    are not tested. ``sentences`` are the article's sentences closest to the post with their cosines, best first.

    Example:
        >>> from ensue import PostLinker
        >>> articles = {"ferry": "The ferry sails at ten.", "bus": "The bus stop moved."}
        >>> model = PostLinker("tfidf").fit([("the ferry again", ["ferry"]), ("a late bus", ["bus"])], articles)
        >>> (explanation,) = model.explain(["the ferry sails"])
        >>> explanation.words
        ('the', 'ferry', 'sails')
    """

    post: str
    words: tuple[str, ...]
    score_drops: tuple[float, ...]
    sentences: tuple[tuple[str, float], ...]
    answer: LinkAnswer

    @property
    def input_weights(self) -> list[tuple[str, float]]:
        """Words of the post, each with the drop of the best article's score without it."""
        return [*zip(self.words, self.score_drops, strict=False)]
