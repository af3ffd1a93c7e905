"""Splitting any data into what is trained on and what is scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from ensue.arguments import require_fraction, require_text
from ensue.data.histories import Histories, dated, hold_out
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import hold_out_posts
from ensue.data.queries import Queries, hold_out_queries
from ensue.data.texts import Texts, hold_out_texts
from ensue.errors import DataError, SettingError
from ensue.settings import require_seed
from ensue.vocabulary import FIRST

Data = Histories | Texts | Queries | Corpus


def split_data(data: Data, test: float, seed: int = 0, by: str = "auto") -> tuple[Data, Data]:
    """Return the training part and the test part of data; see :func:`ensue.split`.

    Raises:
        DataError: too little data.
        SettingError: a fraction outside (0, 1), or another ``by`` than the data allows.
    """
    require_fraction(test, "test")
    require_text(by, "by")
    require_seed(seed)
    # Texts and posts have no order that matters, and only query logs know who their users are.
    ways = ["time", "random"] if isinstance(data, Histories | Queries) else ["random"]
    ways += ["user"] * isinstance(data, Queries)
    if by not in ("auto", *ways):
        raise SettingError(f"this data cannot be split by {by!r}; choose {' or '.join(ways)}")
    if isinstance(data, Histories) and by != "random":
        return hold_out(data, test, by_time=dated(data))[:2]
    if isinstance(data, Queries) and by not in ("random", "user"):
        return hold_out_queries(data, test, absolute=dated(data.histories))[:2]
    if isinstance(data, Histories | Queries):
        return _split_at_random(data, test, seed, by)
    if isinstance(data, Texts):
        return hold_out_texts(data, test, seed)[:2]
    train, held_out, _ = hold_out_posts(data.posts, test, seed)
    return replace(data, posts=train), replace(data, posts=held_out)


def _split_at_random(data: Histories | Queries, test: float, seed: int, by: str) -> tuple[Data, Data]:
    """Hold out whole users, or single sessions, drawn at random until they hold the fraction ``test``."""
    owners = np.arange(len(data))
    if by == "user" and isinstance(data, Queries):
        owners = data.people
    if len(owners) != len(data) or len(np.unique(owners)) < 2:
        raise DataError(f"by {by}: give data of at least two {by if by == 'user' else 'session'}s")
    # Owners are drawn until theirs are as many sessions as wanted; one owner stays on either side.
    order = np.random.default_rng(seed).permutation(np.unique(owners))
    sizes = np.bincount(owners)[order].cumsum()
    num_test = min(max(int(np.searchsorted(sizes, test * len(data), side="right")), 1), len(order) - 1)
    held_out = np.isin(owners, order[:num_test])
    return data.select(~held_out), data.select(held_out)


def to_frame(data: Data) -> pl.DataFrame:
    """Return data as a table, with column names that every reader knows."""
    if isinstance(data, Texts):
        columns = {"text": data.texts[0], "second": data.texts[1] if data.paired else None, "label": data.labels}
        columns |= {"id": data.ids, "group": data.groups}
        return pl.DataFrame({name: column for name, column in columns.items() if column is not None})
    if isinstance(data, Histories | Queries):
        sessions = data if isinstance(data, Histories) else data.histories
        values = pl.Series("query" if isinstance(data, Queries) else "item", sessions.vocabulary.values)
        rows = sessions.sequence_index()  # (events,) the session of each
        names = sessions.names if len(sessions.names) else pl.Series(range(len(sessions)))
        frame = pl.DataFrame([names.gather(rows).alias("session"), values.gather(sessions.ids - FIRST)])
        users = data.people if isinstance(data, Queries) else sessions.ids[:0]
        frame = frame.with_columns(pl.Series("user", users[rows])) if len(users) else frame
        numbers = {"time": sessions.times, "weight": sessions.weights, "propensity": sessions.propensities}
        frame = frame.with_columns(pl.Series(name, column) for name, column in numbers.items() if len(column))
        kinds = pl.Series("kind", sessions.kind_names, dtype=pl.String)
        return frame.with_columns(kinds.gather(sessions.kinds)) if len(sessions.kinds) else frame
    return pl.DataFrame([{"id": post.id, "text": post.text, "about": list(post.about)} for post in data.records()])
