"""The activities of one account, as Google's Takeout writes them: pages that were opened, and searches.

``watch-history.json`` and ``search-history.json`` are lists of ``{"header": …, "title": …, "titleUrl": …, "time": …,
"products": […]}``. A search is the address of a page of results, whatever the language of its title.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote_plus

import polars as pl

from ensue.data.files import Content
from ensue.data.table import read_object, read_objects, sample_objects

ACCOUNT = "account"
"""The name of the one account of a file."""
_FIELDS = {"header", "time", "products"}
_SEARCH = r"[?&](?:search_query|q)=([^&]+)"


def is_activity(fields: Mapping[str, object]) -> bool:
    """Return whether an object is an activity of a Takeout."""
    return fields.keys() >= _FIELDS


def holds_searches(content: Content) -> bool:
    """Return whether a file holds activities most of which are searches."""
    if not content.json:
        return False
    samples = [sample for sample in sample_objects(content) if is_activity(sample)]
    urls = pl.Series([str(sample.get("titleUrl", "")) for sample in samples], dtype=pl.String)
    return bool(len(urls)) and int(urls.str.contains(_SEARCH).sum()) > len(urls) / 2


def read_activities(content: Content) -> pl.DataFrame:
    """Return the activities that have an address, with their ``line``, ``url``, ``time`` and ``query``, maybe null."""
    frame = read_objects(content, {"titleUrl": pl.String(), "time": pl.String()}, read_object)
    query = pl.col("titleUrl").str.extract(_SEARCH).map_elements(unquote_plus, return_dtype=pl.String)
    rows = frame.with_row_index("line", offset=1).with_columns(query=query).rename({"titleUrl": "url"})
    return rows.drop_nulls("url")
