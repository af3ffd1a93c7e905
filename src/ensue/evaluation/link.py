"""Evaluation of task ``link``: ranks of articles for posts and of posts for articles, pooled pairs, and the card.

For each judged post all articles that the model knows or the data holds are ranked: MRR, recall@10 and MAP are means
over posts. An article that a post is about and that neither holds counts as not retrieved, as in trec_eval. Conversely,
the posts are ranked for each article that any of them is about. The pool holds all pairs of a scored post and such an
article in one list, as in the paper: average precision, the mean of precision at r (mRP) and AUC, and precision and
recall at the threshold where the model's probability is .5.

If the file has parts, ``test`` is scored. Intervals resample articles with all their posts, because posts about one
article succeed and fail together. The verdict tests the best model against the better of TF-IDF and BM25, by MRR and by
pooled average precision.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl

from ensue.data.histories import Index, Mask
from ensue.data.near_copies import headline_copies
from ensue.data.posts.corpus import Corpus
from ensue.data.rankings import Rankings
from ensue.errors import DataError
from ensue.evaluation.examples import Entries, Examples, Json, Scored, rank_column
from ensue.evaluation.result import Row
from ensue.lines import plural, quoted
from ensue.metrics import Floats
from ensue.tasks.link.catalogue import COUNTING
from ensue.tasks.link.link_metrics import AtCut, Pool, at_cut, by_list, by_row
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import scores_of
from ensue.tasks.link.train import part_of, training_hashes

METRICS = ("mrr", "recall@10", "map", "article_mrr", "article_map", "pooled_ap", "mrp", "auc")
ALONE = ", each alone"
"""End of the name of a row of ``best`` where each post is ranked on its own."""


@dataclass(frozen=True, slots=True, eq=False)
class PostScores(Scored):
    """Scores that one model gives to every pair of a post and an article.

    Attributes:
        posts: that are scored.
        scores: (posts, articles), the articles of the data first; minus infinity where a list lacks the article.
        cut: the score whose probability is .5; ``None`` for baselines, and where every score has one probability.
        by_post: (posts, 3) reciprocal rank, recall@10 and average precision of each post.
        seconds: of all predictions.
    """

    posts: JudgedPosts
    scores: Floats
    cut: float | None
    by_post: Floats
    seconds: float = 0.0

    @property
    def pool(self) -> Floats:
        """(posts, articles of the pool) scores; a pair that is in no list is below all others."""
        # Replace -inf by a finite score below all others, so that all pairs can be ranked in one list.
        lowest = self.scores[self.scores > -np.inf].min() - 1
        return np.maximum(self.scores[:, self.posts.pool], lowest)

    def metrics(self) -> Mapping[str, Floats]:
        """Return the (posts,) metrics that are means over posts."""
        return dict(zip(METRICS, self.by_post.T, strict=False))

    def pooled(self, weights: Floats) -> Mapping[str, Floats]:
        """Return (draws,) of each metric over articles or over pairs, from weighted posts."""
        posts = self.posts
        reciprocal, _, precision = by_row(self.scores[:, posts.pool].T, posts.true.T).T
        # An article counts as often as the posts whose first it is; one that is never first counts once.
        article_weights = np.where(posts.first_posts >= 0, weights[:, posts.first_posts], 1.0)
        totals = np.maximum(article_weights.sum(1), 1)
        pool = Pool(self.pool, posts.true)
        by_draw = [pool.metrics(post_weights) for post_weights in weights]
        return {
            "article_mrr": article_weights @ reciprocal / totals,
            "article_map": article_weights @ precision / totals,
            **{name: np.array([values[name] for values in by_draw]) for name in METRICS[-3:]},
        }

    def answers(self) -> Mapping[str, pl.Series]:
        """Return the rank of the first article that each post is about, and the highest score of such an article."""
        with np.errstate(divide="ignore"):
            rank = np.rint(1 / self.by_post[:, 0])
        score = np.where(self.posts.relevance(self.scores), self.scores, -np.inf).max(1)
        return {"rank": rank_column(rank), "score": pl.Series(score)}


class JudgedPosts(Examples[LinkPredictor, PostScores]):
    """The judged posts of a data set, and the articles they are about.

    Attributes:
        data: the posts that are scored, and all articles.
        related: (posts, articles) whether a post is about an article.
        links: a row per ``post`` and ``article`` id that it is about, whether or not the data has that article.
        relevant: (posts,) number of articles that each post is about, those that the data lacks included.
        pool: columns of the articles that any post is about.
        true: (posts, articles of the pool) whether a post is about an article.
        first_posts: (articles of the pool,) a post whose first article each is; -1 where it is the first of none.

    Args:
        entries: fitted predictors by model and seed.
        data: to score.
        rankings: the articles that other programs rank for posts, by their ids.

    Raises:
        DataError: nothing to score.
    """

    order = "multinomial"
    names = METRICS
    table_metrics = METRICS
    tested = ("mrr", "pooled_ap")
    baselines = COUNTING

    def __init__(self, entries: Entries[LinkPredictor], data: Corpus, rankings: Sequence[Rankings] = ()) -> None:
        self.first = entries[0][0]
        self.baseline_predictors = [self.first]
        data, self.part = part_of(_with_known_articles(data, self.first), "test")
        self.num_posts = len(data)
        self.data = data.judged()
        posts = self.data.posts
        self.related: Mask = self.data.related
        if not self.related.any():
            raise DataError("nothing to score: no post is about a given article")
        # Index of the post that each link belongs to.
        owners = np.repeat(np.arange(len(posts)), np.diff(posts.offsets))
        self.links = pl.DataFrame({"post": owners, "article": posts.about}).unique(maintain_order=True)
        # Count every link, also to articles that the data lacks: these are relevant and cannot be retrieved.
        self.relevant: Index = np.bincount(self.links["post"].to_numpy(), minlength=len(posts)).astype(np.int64)
        self.pool = np.flatnonzero(self.related.any(0))
        self.true: Mask = self.related[:, self.pool]
        self.units = self._units()
        self.num_units = int(self.units.max()) + 1
        first_posts = np.full(self.related.shape[1], -1)
        is_linked = np.flatnonzero(self.related.any(1))
        # argmax gives the first article of each post; where posts share one, the last post is stored.
        first_posts[self.related[is_linked].argmax(1)] = is_linked
        self.first_posts: Index = first_posts[self.pool]

    def _units(self) -> Index:
        """Return the (posts,) number of the first article of each post, in the order of the articles.

        A post about absent articles alone belongs to the first of these that it names.
        """
        first_article = self.links.unique("post", keep="first", maintain_order=True)["article"]
        # Absent articles get numbers above those of the present ones, so no two units share a number.
        absent = first_article.rank("dense").to_numpy().astype(np.int64) + self.related.shape[1]
        first = np.where(self.related.any(1), self.related.argmax(1), absent)
        return np.unique(first, return_inverse=True)[1].astype(np.int64)

    def relevance(self, scores: Floats) -> Mask:
        """Return (posts, articles) whether a post is about an article, also for articles that only the model knows."""
        relevance = np.zeros(scores.shape, bool)
        # Articles of the model that the data lacks come last, and no post is about them.
        relevance[:, : self.related.shape[1]] = self.related
        return relevance

    def score(self, predictor: LinkPredictor, component: str | None = None) -> PostScores:
        """Score every judged post with every article that the model knows or the data holds.

        Args:
            predictor: the model.
            component: a baseline to use instead of the model, or a name that ends with ``ALONE``: the model without
                what posts of one corpus say about each other.
        """
        is_alone = component is not None and component.endswith(ALONE)
        name = None if is_alone else component
        start = time.perf_counter()
        joined, columns = predictor.joined(self.data.articles)
        scores = scores_of(joined, self.data.posts, name, alone=is_alone).whole()
        # The articles of the data come first, so that the labels fit; other articles of the model stay candidates.
        added_columns = np.setdiff1d(np.arange(scores.shape[1]), columns)
        scores = scores[:, [*columns, *added_columns.tolist()]]
        seconds = time.perf_counter() - start
        cut = None if name is not None or predictor.calibration is None else predictor.calibration.cut(0.5)
        by_post = by_row(scores, self.relevance(scores), relevant=self.relevant)
        return PostScores(self, scores, cut, by_post, seconds)

    def score_rankings(self, rankings: Rankings) -> PostScores:
        """Return the ranks that the lists of another program give to the articles that each post is about.

        The rank is that of the list, whether or not the data has the articles above it, as in trec_eval. The pool
        orders its pairs by score, those without a score by rank.

        Raises:
            DataError: no post, or no article of it, is in the lists.
        """
        lists = rankings.best_first()
        posts = pl.DataFrame({"query": self.data.posts.ids, "post": np.arange(len(self.data))})
        articles = pl.DataFrame({"value": self.data.articles.ids, "article": np.arange(len(self.data.articles))})
        matches = lists.frame.join(posts, on="query").join(articles, on="value")
        if not len(matches):
            raise DataError(
                f"{rankings.name}: ranks no known article for any scored post; it ranks "
                f"{quoted(lists.frame['value'].first() or '')} for {quoted(lists.frame['query'].first() or '')}, and "
                f"the first post and article are {quoted(posts[0, 0])} and {quoted(articles[0, 0])}"
            )
        scores = np.full(self.related.shape, -np.inf)
        by_score = not matches["score"].null_count()
        values = matches["score"].to_numpy() if by_score else -matches["rank"].to_numpy().astype(np.float64)
        if rankings.layout == "trec":
            # trec_eval reads scores as float32; the round trip makes the same ties.
            values = values.astype(np.float32).astype(np.float64)
        scores[matches["post"].to_numpy(), matches["article"].to_numpy()] = values
        # Look up the rank of each true link in the full list, not among the scored articles alone.
        ranks = lists.ranks(self.data.posts.ids.gather(self.links["post"]), self.links["article"])
        owners = self.links["post"].to_numpy()
        by_post = by_list(owners, ranks.cast(pl.Float64).fill_null(np.inf).to_numpy(), self.relevant)
        return PostScores(self, scores, None, by_post)

    def variants(self, predictors: Sequence[LinkPredictor]) -> Sequence[tuple[str, Sequence[LinkPredictor]]]:
        """Return a row where each post is ranked on its own, of a model that ranks them together."""
        return [(f"{predictors[0].model_name}{ALONE}", predictors)] if predictors[0].pulls else []

    def frame(self) -> pl.DataFrame:
        """Return one row per post, in the order of the data."""
        # Targets of a post are listed in the order of the articles; absent ones come last.
        rank = pl.DataFrame({"article": self.data.articles.ids, "column": np.arange(len(self.data.articles))})
        links = self.links.join(rank, on="article", how="left", maintain_order="left")
        links = links.sort("post", "column", nulls_last=True, maintain_order=True)
        target = links.group_by("post", maintain_order=True).agg("article")["article"]
        return pl.DataFrame({"id": self.data.posts.ids, "unit": self.units, "target": target})

    def notes(self, runs: Sequence[PostScores]) -> Json:
        """Return precision by r, and precision and recall at P = .5, of the first seed."""
        pool = runs[0].pool
        curve = Pool(pool, self.true).precision_curve()
        notes: Json = {"precision_at": {str(r): value for r, value in curve.items()}}
        if runs[0].cut is not None:
            notes["even"] = asdict(at_cut(pool, self.true, runs[0].cut))
        return notes

    def card(self, run: PostScores) -> dict[str, str]:
        """Return what the metrics mean."""
        data = self.data
        num_pool = len(self.pool)
        trained = int(data.articles.ids.gather(self.pool).is_in(list(self.first.linked)).sum())
        copies = int(np.isin(training_hashes(data.posts), self.first.train_prints).sum())
        pasted = int((headline_copies(data.posts.texts, data.articles.titles) >= 0).sum())
        links = f"{plural(len(self.links), 'link')}{self._unmatched_judgements()}"
        return {
            "name": "full",
            "data": f"{plural(len(data), 'post')}, {links}{self.part}",
            "candidates": f"{run.scores.shape[1]:,}: all articles of the model and of the data",
            "pool": f"{plural(len(data), 'post')} with {plural(num_pool, 'article')} that any is about, in one list of "
            f"{plural(len(data) * num_pool, 'pair')}, {int(self.related.sum()):,} of them true",
            "together": _together(self.first),
            "averaging": "means over posts; MRR and MAP by article are means over articles; mRP is the mean of "
            "precision at r",
            "leaked": f"articles with posts in training: {trained:,} of {num_pool:,}; posts that were trained on: "
            f"{copies:,}",
            "headlines": f"posts that repeat a headline: {pasted:,}",
            "interval": "articles with their posts",
            "ties": "count against the articles that a post is about; pooled AP and AUC take them together",
        }

    def _unmatched_judgements(self) -> str:
        """Say which links are to articles that are not there, and which judged queries have no text."""
        sentences = []
        absent = self.links.filter(~pl.col("article").is_in(self.data.articles.ids.implode()))
        if len(absent):
            names = absent["article"].unique(maintain_order=True)
            posts = int((~self.related.any(1)).sum())
            alone = f", which is all that {plural(posts, 'post')} {'is' if posts == 1 else 'are'} about"
            sentences.append(
                f"{plural(len(absent), 'link')} to {plural(len(names), 'article')} that the data lacks, such as "
                f"{quoted(names[0])}{alone if posts else ''}: relevant, never retrieved by our models"
            )
        if missing := self.data.missing_queries:
            verb = "has" if len(missing) == 1 else "have"
            sentences.append(
                f"{plural(len(missing), 'judged query', 'judged queries')} {verb} no text, such as "
                f"{quoted(missing[0][1])}: left out of every row"
            )
        if unrelated := self.num_posts - len(self.data):
            verb = "is" if unrelated == 1 else "are"
            sentences.append(f"{plural(unrelated, 'post')} {verb} about no article: left out of every row")
        return "".join(f"; {sentence}" for sentence in sentences)


def _with_known_articles(data: Corpus, predictor: LinkPredictor) -> Corpus:
    """Return the data with the articles that its posts are about, that it lacks, and that the model knows."""
    missing = data.posts.about.filter(~data.posts.about.is_in(data.articles.ids.implode()))
    model_articles = predictor.article_index.articles
    # An id may occur twice in the index of a model; the first one counts.
    is_wanted = model_articles.ids.is_in(missing.implode()) & model_articles.ids.is_first_distinct()
    if not is_wanted.any():
        return data
    added = model_articles.select(is_wanted.arg_true().to_numpy().astype(np.int64))
    return replace(data, articles=data.articles + added)


def _together(predictor: LinkPredictor) -> str:
    """Say which posts are ranked together, and by which score where one score of ``best`` is used alone."""
    alone = predictor.metadata.alone
    single = "" if alone is None else f"best uses the score {alone} alone: no weights rank held-out posts better; "
    if not predictor.pulls:
        return f"{single}each post is ranked on its own"
    strength = predictor.prior_strength
    weight = predictor.neighbour_weight
    counts = f"which articles have {'many' if strength > 0 else 'few'} posts (prior strength {strength:g})"
    neighbours = f"what posts with the same rare words are about (weight {weight:g})"
    priors = " and ".join([counts] * bool(strength) + [neighbours] * bool(weight))
    return (
        f"{single}best also uses, from all posts without labels, {priors}; every other row ranks each post on its own"
    )


def even(row: Row) -> AtCut | None:
    """Return what the threshold of a model retrieves; ``None`` for baselines."""
    values = row.notes.get("even")
    return None if values is None else AtCut(**values)
