"""The evaluator of ``link``: posts against all known articles, the pooled pairs of the paper, TF-IDF and BM25.

For each judged post all articles that the model knows or the data holds are ranked: MRR, recall@10 and MAP are means
over posts. An article that a post is about and that nobody has counts as not retrieved, as in trec_eval. Conversely,
the posts are ranked for each article that any of them is about. The pool holds all pairs of a scored post and such an
article in one list, as in the paper: average precision, the mean of precision at r (mRP) and AUC, and precision and
recall at the threshold where the model's probability is .5.

If the file has parts, ``test`` is scored. Intervals resample articles with all their posts, because posts about one
article succeed and fail together. The verdict tests the best model against the better of TF-IDF and BM25, by MRR and by
pooled average precision.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.data.near_copies import headline_copies
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles
from ensue.data.rankings import Rankings, tie_rule
from ensue.errors import DataError
from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult, drawn_apart, seeds_apart
from ensue.evaluation.entries import Entry, beside_counting
from ensue.evaluation.examples import Examples, found_of, ranked
from ensue.evaluation.paired_test import RULE, paired_tests
from ensue.evaluation.result import TaskResult, with_seeds
from ensue.evaluation.rows import Row, seed_notes
from ensue.lines import plural, quoted
from ensue.metrics import Floats
from ensue.tasks.link.catalogue import COUNTING
from ensue.tasks.link.measures import (
    AtCut,
    Mask,
    area_under_curve,
    at_cut,
    average_precision,
    by_list,
    by_row,
    precision_curve,
)
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import scores_of
from ensue.tasks.link.train import part_of, training_hashes

MEASURES = ("mrr", "recall@10", "map", "article_mrr", "article_map", "pooled_ap", "mrp", "auc")
RIVAL = ("mrr", "pooled_ap")
"""What the verdict goes by."""
ALONE = ", each alone"
"""After the name of ``best`` in the row where posts of one corpus tell nothing of each other."""
_ARTICLES = (0, 2)  # of the measures by row, those that are told of articles


@dataclass(frozen=True, slots=True)
class LinkCard:
    """What the metrics of a table mean."""

    name: str
    data: str
    candidates: str
    pool: str
    together: str
    averaging: str
    leaked: str
    headlines: str
    interval: str
    ties: str
    significance: str = RULE


class LinkResult(TaskResult[LinkCard]):
    """A table, its card, and a paired test by each metric of ``RIVAL``."""

    __slots__ = ()
    task = "link"


@dataclass(frozen=True, slots=True, eq=False)
class LinkScored:
    """Scores of one model.

    Attributes:
        scores: (posts, articles), the articles of the data first; minus infinity where a list lacks the article.
        seconds: for all posts.
        cut: the score whose probability is .5; ``None`` for baselines, and where every score has one probability.
        by_post: (posts, 3) of :func:`by_list` where another program ranked; ``None`` where the scores give the ranks.
    """

    scores: Floats
    seconds: float
    cut: float | None
    by_post: Floats | None = None


class JudgedPosts:
    """The judged posts of a data set, and the articles they are about.

    Attributes:
        data: the posts that are scored, and all articles.
        part: what to say of the part of the file they are, after a semicolon.
        related: (posts, articles) whether a post is about an article.
        links: a row per ``post`` and ``article`` id that it is about, whether or not the data has that article.
        relevant: (posts,) number of articles that each post is about, those that the data lacks included.
        pool: the places of the articles that any post is about.
        clusters: (posts,) what each post is drawn with.
        times: (resamples, clusters) how often each is drawn.

    Raises:
        DataError: nothing to score.
    """

    def __init__(self, data: Corpus, seed: int = 0) -> None:
        data, self.part = part_of(data, "test")
        self.num_posts = len(data)
        self.data = data.judged()
        posts = self.data.posts
        self.related: Mask = self.data.related
        if not self.related.any():
            raise DataError("nothing to score: no post is about a given article")
        owners = np.repeat(np.arange(len(posts)), np.diff(posts.offsets))
        self.links = pl.DataFrame({"post": owners, "article": posts.about}).unique(maintain_order=True)
        self.relevant: Index = np.bincount(self.links["post"].to_numpy(), minlength=len(posts)).astype(np.int64)
        self.pool = np.flatnonzero(self.related.any(0))
        self.clusters = self._clusters()
        self.times: Floats = drawn_apart(int(self.clusters.max()) + 1, RESAMPLES, seed)

    def _clusters(self) -> Index:
        """Return the (posts,) number of the first article of each post, in the order of the articles.

        A post about absent articles alone belongs to the first of these that it names.
        """
        first_article = self.links.unique("post", keep="first", maintain_order=True)["article"]
        absent = first_article.rank("dense").to_numpy().astype(np.int64) + self.related.shape[1]
        first = np.where(self.related.any(1), self.related.argmax(1), absent)
        return np.unique(first, return_inverse=True)[1].astype(np.int64)

    @property
    def absent(self) -> pl.DataFrame:
        """The links to articles that the data lacks, as :attr:`links`."""
        return self.links.filter(~pl.col("article").is_in(self.data.articles.ids.implode()))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per post, in the order of the data."""
        rank = pl.DataFrame({"article": self.data.articles.ids, "column": np.arange(len(self.data.articles))})
        links = self.links.join(rank, on="article", how="left", maintain_order="left")
        links = links.sort("post", "column", nulls_last=True, maintain_order=True)
        target = links.group_by("post", maintain_order=True).agg("article")["article"]
        return pl.DataFrame({"id": self.data.posts.ids, "unit": self.clusters, "target": target})


def compare(entries: Sequence[Sequence[LinkPredictor]], data: Corpus, rankings: Sequence[Rankings] = ()) -> LinkResult:
    """Score several models, each a list of predictors that differ in their seed alone.

    Args:
        entries: by model.
        data: to score.
        rankings: the articles that other programs rank for posts, by their ids.

    Raises:
        DataError: nothing to score.
    """
    first = entries[0][0]
    judged = JudgedPosts(_with_known_articles(data, first))
    lines = []
    for seeds in entries:
        lines.append(Entry.of(seeds, partial(score, judged=judged)))
        if seeds[0].pulls:
            alone = f"{seeds[0].model_name}{ALONE}"
            lines.append(Entry.of(seeds, partial(score, judged=judged, pulled=False), alone))
    lines = beside_counting(lines, COUNTING, [first], lambda predictor, name: score(predictor, judged, name))
    lines = [*(Entry(ranking.name, [_run_of_lists(ranking, judged)], [0]) for ranking in rankings), *lines]
    results = [_resample(line.runs, judged) for line in lines]
    rows = tuple(_row(line, judged, result) for line, result in zip(lines, results, strict=True))
    tests = paired_tests(RIVAL, COUNTING, [line.name for line in lines], results)
    examples = Examples(judged.to_frame, partial(found_of, lines, partial(_first_true, judged)))
    card = with_seeds(_card(first, judged, rankings), lines)
    return LinkResult(card, rows, tests, tuple(results), examples=examples)


def _with_known_articles(data: Corpus, predictor: LinkPredictor) -> Corpus:
    """Return the data with the articles that its posts are about, that it lacks, and that the model knows."""
    missing = data.posts.about.filter(~data.posts.about.is_in(data.articles.ids.implode()))
    known = predictor.article_index.articles
    is_wanted = known.ids.is_in(missing.implode()) & known.ids.is_first_distinct()
    if not is_wanted.any():
        return data
    added = known.select(is_wanted.arg_true().to_numpy().astype(np.int64))
    columns = [pl.concat(pair) for pair in zip(_columns(data.articles), _columns(added), strict=True)]
    return replace(data, articles=Articles(*columns))


def _columns(articles: Articles) -> tuple[pl.Series, pl.Series, pl.Series]:
    return articles.bodies, articles.titles, articles.ids


def _first_true(judged: JudgedPosts, run: LinkScored) -> dict[str, pl.Series]:
    """Return the rank of the first article that each post is about, and the highest score of such an article."""
    with np.errstate(divide="ignore"):
        rank = np.rint(1 / _by_post(run, judged)[:, 0])
    score = np.where(_relevance(judged, run.scores), run.scores, -np.inf).max(1)
    return {"rank": ranked(rank), "score": pl.Series(score)}


def score(predictor: LinkPredictor, judged: JudgedPosts, name: str | None = None, *, pulled: bool = True) -> LinkScored:
    """Score every judged post with every article that the model knows or the data holds.

    Args:
        predictor: the model.
        judged: the posts.
        name: a baseline to use instead of the model.
        pulled: whether posts of one corpus are ranked together, where ``best`` has fitted that.
    """
    begun = time.perf_counter()
    knowing, places = predictor.joined(judged.data.articles)
    scores = scores_of(knowing, judged.data.posts, name, alone=not pulled).whole()
    # The articles of the data come first, so that the labels fit; what else the model knows stays a candidate.
    others = np.setdiff1d(np.arange(scores.shape[1]), places)
    cut = None if name is not None or predictor.calibration is None else predictor.calibration.cut(0.5)
    return LinkScored(scores[:, [*places, *others.tolist()]], time.perf_counter() - begun, cut)


def _run_of_lists(rankings: Rankings, judged: JudgedPosts) -> LinkScored:
    """Return the ranks that the lists of another program give to the articles that each post is about.

    The rank is that of the list, whether or not the data has the articles above it, as in trec_eval. The pool orders
    its pairs by score, those without a score by rank.

    Raises:
        DataError: no post, or no article of it, is in the lists.
    """
    lists = rankings.best_first()
    posts = pl.DataFrame({"query": judged.data.posts.ids, "post": np.arange(len(judged.data))})
    articles = pl.DataFrame({"value": judged.data.articles.ids, "article": np.arange(len(judged.data.articles))})
    known = lists.frame.join(posts, on="query").join(articles, on="value")
    if not len(known):
        raise DataError(
            f"{rankings.name}: ranks no known article for any scored post; it ranks "
            f"{quoted(lists.frame['value'].first() or '')} for {quoted(lists.frame['query'].first() or '')}, and "
            f"the first post and article are {quoted(posts[0, 0])} and {quoted(articles[0, 0])}"
        )
    scores = np.full(judged.related.shape, -np.inf)
    by_score = not known["score"].null_count()
    values = known["score"].to_numpy() if by_score else -known["rank"].to_numpy().astype(np.float64)
    if rankings.layout == "trec":
        values = values.astype(np.float32).astype(np.float64)
    scores[known["post"].to_numpy(), known["article"].to_numpy()] = values
    ranks = lists.ranks(judged.data.posts.ids.gather(judged.links["post"]), judged.links["article"])
    owners = judged.links["post"].to_numpy()
    by_post = by_list(owners, ranks.cast(pl.Float64).fill_null(np.inf).to_numpy(), judged.relevant)
    return LinkScored(scores, 0.0, None, by_post)


def _relevance(judged: JudgedPosts, scores: Floats) -> Mask:
    """Return (posts, articles) whether a post is about an article, also for articles that only the model knows."""
    relevance = np.zeros(scores.shape, bool)
    relevance[:, : judged.related.shape[1]] = judged.related
    return relevance


def _by_post(run: LinkScored, judged: JudgedPosts) -> Floats:
    """Return (posts, 3) reciprocal rank, recall@10 and average precision of each post."""
    if run.by_post is not None:
        return run.by_post
    return by_row(run.scores, _relevance(judged, run.scores), relevant=judged.relevant)


def _resample(runs: Sequence[LinkScored], judged: JudgedPosts) -> BootstrapResult:
    """Return the metrics of a model, and the same for resampled articles."""
    by_seed, draws = zip(*(figures_of(run, judged) for run in runs), strict=True)
    return BootstrapResult(MEASURES, np.stack(by_seed), seeds_apart(np.stack(draws)), judged.times.shape[1])


def figures_of(run: LinkScored, judged: JudgedPosts) -> tuple[Floats, Floats]:
    """Return ``MEASURES`` of a run: (measures,), and (resamples, measures) on the same draws for every model.

    Args:
        run: scores of all posts, the articles of the data first.
        judged: what was scored.
    """
    scores = run.scores
    posts = _by_post(run, judged)
    pool, true = _pool(scores, judged), judged.related[:, judged.pool]
    articles = by_row(scores[:, judged.pool].T, true.T)[:, list(_ARTICLES)]
    curve = precision_curve(pool, true)
    pooled = [average_precision(pool, true), float(np.mean(list(curve.values()))), area_under_curve(pool, true)]
    metrics = np.concatenate([posts.mean(0), articles.mean(0), pooled])
    weights = judged.times[:, judged.clusters]  # (resamples, posts)
    by_post = weights @ posts / weights.sum(1, keepdims=True)
    # An article counts as often as the posts whose first it is were drawn; one that is never first stays as it is.
    first = np.full(judged.related.shape[1], -1)
    is_linked = judged.related.any(1)
    first[judged.related[is_linked].argmax(1)] = judged.clusters[is_linked]
    clusters = first[judged.pool]
    article_weights = np.where(clusters >= 0, judged.times[:, clusters], 1.0)
    by_article = article_weights @ articles / np.maximum(article_weights.sum(1, keepdims=True), 1)
    return metrics, np.concatenate([by_post, by_article, _resampled_pool(pool, true, weights, list(curve))], axis=1)


def _pool(scores: Floats, judged: JudgedPosts) -> Floats:
    """Return (posts, articles of the pool) scores; a pair that is in no list is below all others."""
    pool: Floats = np.maximum(scores[:, judged.pool], scores[scores > -np.inf].min() - 1)
    return pool


def _resampled_pool(scores: Floats, true: Mask, weights: Floats, at: Sequence[int]) -> Floats:
    """Return (resamples, 3) pooled average precision, mRP and AUC where each post counts ``weights`` times.

    With weights of 1 they are the metrics themselves: average precision and AUC take pairs of equal scores together,
    and in precision at r the false ones come first.

    Args:
        scores: (posts, articles).
        true: (posts, articles) whether a post is about an article.
        weights: (resamples, posts).
        at: cutoffs r; the last one stands for the number of true pairs.
    """
    order = np.lexsort((true.ravel(), -scores.ravel()))
    hits = true.ravel()[order]
    owners = np.repeat(np.arange(len(scores)), scores.shape[1])[order]
    ends = np.flatnonzero(np.append(np.diff(scores.ravel()[order]) != 0, True))  # the last pair of each score
    metrics = np.empty((len(weights), 3))
    for row, post_weights in enumerate(weights):
        pair_weights = post_weights[owners]
        above, right = np.cumsum(pair_weights), np.cumsum(pair_weights * hits)
        total, num_wrong = right[-1], above[-1] - right[-1]
        gained, wrong = np.diff(right[ends], prepend=0), np.diff(above[ends] - right[ends], prepend=0)
        precision = right[ends] / np.maximum(above[ends], 1e-9)
        metrics[row, 0] = (gained * precision).sum() / max(total, 1)
        places = np.minimum(np.searchsorted(above, [*at[:-1], total]), len(above) - 1)
        metrics[row, 1] = (right[places] / np.maximum(above[places], 1)).mean()
        pairs = total * num_wrong
        metrics[row, 2] = (wrong * (right[ends] - gained / 2)).sum() / pairs if pairs else 0.5
    return metrics


def _row(entry: Entry[LinkScored], judged: JudgedPosts, result: BootstrapResult) -> Row:
    """Return the row of one model, with precision by r and precision and recall at P = .5."""
    notes = seed_notes(entry.seeds, result)
    run = entry.runs[0]
    pool, true = _pool(run.scores, judged), judged.related[:, judged.pool]
    notes["precision_at"] = {str(r): value for r, value in precision_curve(pool, true).items()}
    if run.cut is not None:
        notes["even"] = asdict(at_cut(pool, true, run.cut))
    seconds = 1000 * sum(run.seconds for run in entry.runs) / (len(entry.runs) * len(judged.data))
    return Row(entry.name, result.by_name(), result.interval(), seconds, notes)


def _card(predictor: LinkPredictor, judged: JudgedPosts, rankings: Sequence[Rankings] = ()) -> LinkCard:
    data, posts = judged.data, judged.data.posts
    about = data.articles.ids.gather(judged.pool)
    shared = int(about.is_in(list(predictor.linked)).sum())
    copies = int(np.isin(training_hashes(posts), predictor.train_prints.numpy()).sum())
    pasted = int((headline_copies(posts.texts, data.articles.titles) >= 0).sum())
    known = len(predictor.joined(data.articles)[0].article_index)
    return LinkCard(
        "full",
        f"{plural(len(data), 'post')}, {plural(len(judged.links), 'link')}{_unmatched_judgements(judged)}{judged.part}",
        f"{known:,}: all articles of the model and of the data",
        f"{plural(len(data), 'post')} with {plural(len(judged.pool), 'article')} that any is about, in one list of "
        f"{plural(len(data) * len(judged.pool), 'pair')}, {int(judged.related.sum()):,} of them true",
        _together(predictor),
        "means over posts; MRR and MAP by article are means over articles; mRP is the mean of precision at r",
        f"articles with posts in training: {shared:,} of {len(judged.pool):,}; posts that were trained on: {copies:,}",
        f"posts that repeat a headline: {pasted:,}",
        f"95 %, {RESAMPLES} resamples of articles with their posts",
        f"count against the articles that a post is about; pooled AP and AUC take them together{tie_rule(rankings)}",
    )


def _unmatched_judgements(judged: JudgedPosts) -> str:
    """Return what is said of links to articles that are not there, and of judged queries without a text."""
    sentences = []
    if len(absent := judged.absent):
        names = absent["article"].unique(maintain_order=True)
        posts = int((~judged.related.any(1)).sum())
        alone = f", which is all that {plural(posts, 'post')} {'is' if posts == 1 else 'are'} about" if posts else ""
        sentences.append(
            f"{plural(len(absent), 'link')} to {plural(len(names), 'article')} that the data lacks, such as "
            f"{quoted(names[0])}{alone}: relevant, never retrieved by our models"
        )
    if missing := judged.data.missing_queries:
        verb = "has" if len(missing) == 1 else "have"
        sentences.append(
            f"{plural(len(missing), 'judged query', 'judged queries')} {verb} no text, such as "
            f"{quoted(missing[0][1])}: left out of every row"
        )
    if unrelated := judged.num_posts - len(judged.data):
        verb = "is" if unrelated == 1 else "are"
        sentences.append(f"{plural(unrelated, 'post')} {verb} about no article: left out of every row")
    return "".join(f"; {sentence}" for sentence in sentences)


def _together(predictor: LinkPredictor) -> str:
    """What of the posts is ranked together, and by which score where one of ``best`` stands alone."""
    alone = predictor.metadata.alone
    single = "" if alone is None else f"best uses the score {alone} alone: no weights rank held-out posts better; "
    if not predictor.pulls:
        return f"{single}each post is ranked on its own"
    strength, neighbour_weight = predictor.prior_strength, predictor.neighbour_weight
    often = f"which articles have {'many' if strength > 0 else 'few'} posts (prior strength {strength:g})"
    alike = f"what posts with the same rare words are about (weight {neighbour_weight:g})"
    priors = " and ".join([often] * bool(strength) + [alike] * bool(neighbour_weight))
    return (
        f"{single}best also uses, from all posts without labels, {priors}; every other row ranks each post on its own"
    )


def even(row: Row) -> AtCut | None:
    """What a model's even cut catches, or ``None`` for counting."""
    found = row.notes.get("even")
    return None if found is None else AtCut(**found)
