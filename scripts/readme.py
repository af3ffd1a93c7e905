"""Rewrite the README's one table from the files of results, or check that it agrees with them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ensue.tasks.classify.catalogue import COUNTING as CLASSIFY_COUNTING  # noqa: E402
from ensue.tasks.link.catalogue import COUNTING as LINK_COUNTING  # noqa: E402
from ensue.tasks.next.catalogue import COUNTING as NEXT_COUNTING  # noqa: E402
from ensue.tasks.suggest.catalogue import COUNTING as SUGGEST_COUNTING  # noqa: E402
from scripts.site.papers import found_of  # noqa: E402
from scripts.site.tables import load, overall, spread  # noqa: E402

BEGIN, END = "<!-- results -->\n", "\n<!-- end of results -->"
Row = dict[str, Any]


def main() -> None:
    """Rewrite, or with ``--check`` compare."""
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    head, begin, rest = old.partition(BEGIN)
    if not begin or END not in rest:
        sys.exit("README.md: the markers of the table are missing")
    new = f"{head}{begin}{table()}{rest[rest.index(END) :]}"
    if "--check" in sys.argv and new != old:
        sys.exit("README.md: the table does not agree with the results; run scripts/readme")
    path.write_text(new, encoding="utf-8")


def table() -> str:
    """The best row of each question that is no counting, and the best counting row on the same data; then all cuts."""
    lines = ["| task | question | data and figure (x 100) | best model | counting beside |", "|---" * 5 + "|"]
    cascades = [row for row in _rows("hidan", "prediction") if row["protocol"] == "full"]
    lines.append(_line("next", "who passes it on?", "Memes, MRR", *_best(cascades, "memes", "mrr", NEXT_COUNTING)))
    clicks = found_of("sansr")
    if clicks:
        rows = [row for row in clicks["tables"]["overall"] if row["protocol"] == "full"]
        best = _best(rows, "diginetica", "mrr@20", NEXT_COUNTING)
        lines.append(_line("next", "what is clicked next?", "Diginetica, MRR@20", *best))
    news = load("benchmarks/results/globo.json")
    popular = max(
        (name for name in news["hour_by_hour"] if name.startswith("popular")), key=lambda name: overall(news, name)
    )
    own, counted = (f"{100 * float(overall(news, name)):.1f}" for name in ("model", popular))
    said = "what is clicked next, as it comes?"
    lines.append(_line("next", said, "Globo, HR@20", f"{news['model']} {own}", f"{popular} {counted}"))
    texts = _rows("centrality", "overall")
    lines.append(
        _line("classify", "what does it say?", "SST-2, accuracy", *_best(texts, "sst2", "accuracy", CLASSIFY_COUNTING))
    )
    queries = _rows("mtn", "overall")
    best = _best(queries, "msmarco", "mrr@10", SUGGEST_COUNTING)
    lines.append(_line("suggest", "what is searched next?", "MS MARCO, MRR@10", *best))
    links = [row for row in _rows("ast", "overall") if "sbert" not in row["model"]]
    lines.append(
        _line("link", "which posts are about it?", "PolitiFact, MRR", *_best(links, "politifact", "mrr", LINK_COUNTING))
    )
    verdicts = load("studies/results/anywhere.json")["tables"]["verdicts"]
    outcomes = Counter(row["outcome"] for row in verdicts)
    sets = len({(row["task"], row["data"]) for row in verdicts})
    beside = f"draws {outcomes['draws']}, loses {outcomes['loses']}"
    cuts = f"{len(verdicts)} cuts of {sets} sets, significantly ahead"
    lines.append(_line("all", "is `best` best anywhere?", cuts, f"best leads {outcomes['leads']}", beside))
    return "\n".join(lines)


def _rows(paper: str, name: str) -> list[Row]:
    rows: list[Row] = load(f"studies/results/{paper}.json")["tables"][name]
    return [row for row in rows if row.get("cascades", "all") == "all" and "interval" in row]


def _best(rows: list[Row], data: str, measure: str, counting: Collection[str]) -> tuple[str, str]:
    """The best model and the best counting row by a figure, each with its interval."""
    of_data = [row for row in rows if row["data"] == data]
    found = []
    for counts in (False, True):
        row = max((row for row in of_data if (row["model"] in counting) == counts), key=lambda row: row[measure])
        found.append(f"{row['model']} {spread(row, measure)}")
    return found[0], found[1]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
