"""Write what is generated from result files: tables of README.md and docs, pages of studies; and the drawings.

    python scripts/tables.py [--check]

A table is between ``<!-- table: NAME -->`` and ``<!-- end of table -->``: every page can be read without building
the site. With ``--check`` nothing is written, and the exit code is 1 where a file is out of date.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ensue.tasks.link.catalogue import COUNTING as LINK_COUNTING  # noqa: E402
from ensue.tasks.next.catalogue import COUNTING as NEXT_COUNTING  # noqa: E402
from ensue.tasks.suggest.catalogue import COUNTING as SUGGEST_COUNTING  # noqa: E402
from ensue_studies.centrality import BASELINES  # noqa: E402
from scripts.site import custom_code, drawings, first_answer, papers, tables  # noqa: E402
from scripts.site.blocks import pages  # noqa: E402
from scripts.site.papers import found_of  # noqa: E402
from scripts.site.tables import load, overall, spread  # noqa: E402

TABLE = re.compile(r"(?<=<!-- table: )(\w+)( -->\n).*?(?=<!-- end of table -->)", re.DOTALL)
Row = dict[str, Any]


def main() -> None:
    """Write every file that is out of date, or with ``--check`` list them."""
    stale = [(path, text) for path, text in generated() if not path.is_file() or path.read_text("utf-8") != text]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)}: {'out of date; run scripts/tables' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sys.exit(bool(stale) and "--check" in sys.argv)


def generated() -> Iterator[tuple[Path, str]]:
    """Yield each page with its tables up to date, each drawing and each page of a study."""
    for page in pages():
        yield page, TABLE.sub(lambda match: f"{match[1]}{match[2]}\n{TABLES[match[1]]()}\n\n", page.read_text("utf-8"))
    for name, draw in drawings.DRAWINGS.items():
        yield ROOT / "docs" / "drawings" / f"{name}.svg", draw()

    for name in papers.LEADS:
        yield ROOT / "studies" / "results" / f"{name}.md", study(name)


def study(name: str) -> str:
    """Return the page of a study from its result file, below what its run wrote before the first table."""
    path = ROOT / "studies" / "results" / f"{name}.md"
    result = papers.text_tables() if name == "centrality" else load(f"studies/results/{name}.json")["tables"]
    module = import_module(f"ensue_studies.{name}")
    introduction = path.read_text("utf-8").partition("\n## ")[0]
    if name == "anywhere":
        introduction = module.introduction(result, (), quick=False)
    return str(module.write(introduction, result))


def readme() -> str:
    """Return the README's table: the best model of each question, and the best baseline on the same data."""
    lines = ["| task | question | data, metric (%) | best model | best baseline |", "|---" * 5 + "|"]
    cascades = [row for row in papers.rows_of("hidan", "prediction") if row["protocol"] == "full"]
    lines.append(_line("next", "Who shares it next?", "Memes, MRR", *_best(cascades, "memes", "mrr", NEXT_COUNTING)))
    clicks = found_of("sansr")
    if clicks:
        rows = [row for row in clicks["tables"]["overall"] if row["protocol"] == "full"]
        best = _best(rows, "diginetica", "mrr@20", NEXT_COUNTING)
        lines.append(_line("next", "What is read or clicked next?", "Diginetica, MRR@20", *best))
    news = load("benchmarks/results/globo.json")
    followers = load("benchmarks/results/globo_followers.json")
    model = f"{news['model']} {100 * float(overall(news, 'model')):.1f}"
    baseline = f"latest {followers['latest']} followers {100 * followers['hr@20']:.1f}"
    lines.append(_line("next", "The same, from a live stream", "Globo, HR@20", model, baseline))
    best = _best(papers.text_rows(), "sst2", "accuracy", BASELINES)
    lines.append(_line("classify", "What does it say?", "SST-2, accuracy", *best))
    best = _best(papers.rows_of("mtn", "overall"), "msmarco", "mrr@10", SUGGEST_COUNTING)
    lines.append(_line("suggest", "What is searched next?", "MS MARCO, MRR@10", *best))
    links = [row for row in _rows("ast", "overall") if "sbert" not in row["model"]]
    best = _best(links, "politifact", "mrr", LINK_COUNTING)
    lines.append(_line("link", "Which posts are about it?", "PolitiFact, MRR", *best))
    verdicts = load("studies/results/anywhere.json")["tables"]["paired_tests"]
    outcomes = Counter(row["outcome"] for row in verdicts)
    sets = len({(row["task"], row["data"]) for row in verdicts})
    subsets = f"{len(verdicts)} subsets of {sets} data sets"
    wins, losses = (f"significantly better on {outcomes[name]}" for name in ("better", "worse"))
    lines.append(_line("all", "`best` or the best baseline?", subsets, wins, losses))
    return "\n".join(lines)


def _rows(paper: str, name: str) -> list[Row]:
    rows: list[Row] = load(f"studies/results/{paper}.json")["tables"][name]
    return [row for row in rows if row.get("cascades", "all") == "all" and "interval" in row]


def _best(rows: list[Row], data: str, metric: str, baselines: Collection[str]) -> tuple[str, str]:
    """Return the best model and the best baseline by a metric, each with its interval."""
    of_data = [row for row in rows if row["data"] == data]
    cells = []
    for is_baseline in (False, True):
        candidates = [row for row in of_data if (row["model"] in baselines) == is_baseline]
        row = max(candidates, key=lambda row: row[metric])
        cells.append(f"{row['model']} {spread(row, metric)}")
    return cells[0], cells[1]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


TABLES: dict[str, Callable[[], str]] = {
    "readme": readme,
    "custom_code": custom_code.table,
    "first_answers": first_answer.table,
    **tables.SECTIONS,
    **{f"lead_{name}": table for name, table in papers.LEADS.items()},
}

if __name__ == "__main__":
    main()
