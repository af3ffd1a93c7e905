"""Small corpora whose links can be told from words."""

from __future__ import annotations

from ensue import Article, Post
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts

THEMES = {
    "ferry": "harbour ferry crossing captain tide deck quay night sailing fares",
    "train": "railway train station platform driver ticket track signal delay carriage",
    "school": "school pupils teacher classroom lesson exam homework headmaster term pupil",
    "storm": "storm wind rain flood thunder clouds forecast damage roofs gale",
    "football": "football goal striker keeper match referee penalty league crowd derby",
    "museum": "museum painting gallery exhibition curator sculpture visitors portrait artist frame",
    "bakery": "bakery bread oven flour dough pastry baker crust loaf yeast",
    "election": "election vote ballot candidate party poll mayor campaign turnout council",
    "hospital": "hospital nurse doctor patients ward surgery clinic beds ambulance medicine",
    "library": "library books shelves reader loan librarian novel reading pages catalogue",
    "forest": "forest trees oak beech path deer timber ranger leaves pine",
    "market": "market stall vegetables apples cheese traders square flowers saturday baskets",
}
NAMES = tuple(THEMES)


def article(name: str) -> Article:
    """Each word twice, in sentences of five."""
    words = THEMES[name].split()
    body = f"{' '.join(words[:5])}. {' '.join(words[5:])}.\n{' '.join(words[::2])}. {' '.join(words[1::2])}."
    return Article(body, name, f"News of the {name}")


def post(name: str, number: int, *, about: bool = True) -> Post:
    """Three of the words of an article, others by number."""
    words = THEMES[name].split()
    chosen = [words[(number * 3 + step) % 10] for step in (0, 3, 7)]
    return Post(f"{chosen[0]} and {chosen[1]} with {chosen[2]}!", f"{name}-{number}", (name,) if about else ())


def planted(names: tuple[str, ...] = NAMES, num: int = 4, first: int = 0) -> Corpus:
    """All articles, and some posts about each of these."""
    posts = [post(name, number) for name in names for number in range(first, first + num)]
    return Corpus(Articles.of(map(article, NAMES)), Posts.of(posts))
