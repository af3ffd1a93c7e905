"""The first table of a paper's page: its own numbers, ours under its protocol and under full ranking, baselines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ensue.tasks.link.catalogue import COUNTING as LINK_COUNTING
from ensue.tasks.next.catalogue import COUNTING as NEXT_COUNTING
from ensue.tasks.suggest.catalogue import COUNTING as SUGGEST_COUNTING
from ensue_studies.anywhere import OUTCOMES
from ensue_studies.centrality import BASELINES, SVC
from ensue_studies.papers import Paper

ROOT = Path(__file__).parents[2]
Row = dict[str, Any]
NO_FIGURE = "–"


def found_of(paper: str) -> dict[str, Any] | None:
    """The file of results of a paper, where its study has been run."""
    path = ROOT / "studies" / "results" / f"{paper}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def rows_of(paper: str, table: str) -> list[Row]:
    """Return rows of a study; those of its later run with all baselines stand for its own of the same models."""
    rows, newer = (_required(name)["tables"][table] for name in (paper, f"{paper}_baselines"))
    replaced = {(row["data"], row["model"]) for row in newer}
    return [*(row for row in rows if (row["data"], row["model"]) not in replaced), *newer]


def hidan() -> str:
    """HiDAN: the paper learns 80 % of the cascades, here 10 % are public."""
    rows = rows_of("hidan", "prediction")
    names = ("mrr", "hit@10", "hit@50", "hit@100")
    lines = _head("data", "row", "MRR", "HR@10", "HR@50", "HR@100")
    for data in ("memes", "weibo", "twitter"):
        macro, full = (_of(rows, data=data, protocol=name) for name in ("macro", "full"))
        (ours,) = _of(macro, model="hidan")
        lines.append(_line(data, "HiDAN, paper (trained on 80 % of the cascades)", _printed(ours["paper"], names)))
        lines.append(_line(data, "HiDAN, ours, protocol of the paper (trained on 10 %)", _figures(ours, names)))
        (honest,) = _of(full, model="hidan")
        lines.append(_line(data, "HiDAN, ours, protocol full", _figures(honest, names)))
        (blend,) = _of(full, model="cascade-blend")
        lines.append(_line(data, "`cascade-blend`, protocol full", _figures(blend, names)))
        for of_protocol, protocol in ((macro, "protocol of the paper"), (full, "protocol full")):
            best = max((row for row in of_protocol if row["model"] in NEXT_COUNTING), key=lambda row: row["mrr"])
            lines.append(_line(data, f"best baseline: {best['model']}, {protocol}", _figures(best, names)))
    return "\n".join(lines)


def centrality() -> str:
    """Centrality attention: the paper's vectors are 300 wide, those here 100."""
    rows = text_rows()
    lines = _head("data", "row", "accuracy")
    for data in dict.fromkeys(row["data"] for row in rows):
        of_data = _of(rows, data=data)
        (ours,) = _of(of_data, model="centrality")
        if ours.get("paper"):
            lines.append(_line(data, "centrality, paper", [f"{ours['paper']:.1f}"]))
        lines.append(_line(data, "centrality, ours, protocol of the paper", _figures(ours, ("accuracy",))))
        for blend in _of(of_data, model="blend"):
            lines.append(_line(data, "`blend`, ours", _figures(blend, ("accuracy",))))
        counting = [row for row in of_data if row["model"] in BASELINES]
        best = max(counting, key=lambda row: row["accuracy"])
        lines.append(_line(data, f"best baseline: {best['model']}", _figures(best, ("accuracy",))))
    return "\n".join(lines)


def text_tables() -> dict[str, list[Row]]:
    """Return the tables of the study of texts, with scikit-learn's linear SVM, which was run on the same texts."""
    tables, added = (_required(name)["tables"] for name in ("centrality", "centrality_baselines"))
    overall = [*tables["overall"], *_of(added["overall"], model=SVC)]
    return {
        **tables,
        "overall": overall,
        "paired_tests": [*tables["paired_tests"], *_of(added["paired_tests"], other=SVC)],
    }


def text_rows() -> list[Row]:
    """Return the rows of the study of texts."""
    return text_tables()["overall"]


def mtn() -> str:
    """MTN: the paper's AOL log is not at hand."""
    printed = Paper("mtn")["bleu"]
    rows = rows_of("mtn", "overall")
    names = ("bleu", "content@1", "mrr@10")
    lines = _head("data", "row", "BLEU", "content words", "MRR@10")
    for model, score in printed.items():
        lines.append(_line("AOL", f"{model}, paper (another log)", [f"{score:.2f}", NO_FIGURE, NO_FIGURE]))
    output = {"transformer": "Transformer, ours", "mtn": "MTN, ours", "best": "`best`, ours"}
    return "\n".join([*lines, *_ours(rows, output, SUGGEST_COUNTING, "bleu", names)])


def ast() -> str:
    """AST: the paper's posts are not at hand, and it does not say how pairs were split."""
    table = Paper("ast").rows("overall")["ast"]
    rows = _required("ast")["tables"]["overall"]
    names = ("pooled_ap", "auc", "mrp", "mrr")
    lines = _head("data", "row", "AP, pooled", "AUC", "mRP", "MRR of a post's article")
    cells = [f"{table[name]:.2f}" if name in table else NO_FIGURE for name in names]
    lines.append(_line("the paper's posts", "AST, paper (other data)", cells))
    output = {"ast": "AST, ours, no article on both sides", "best": "`best`, ours"}
    return "\n".join([*lines, *_ours(rows, output, LINK_COUNTING, "pooled_ap", names)])


def sansr() -> str:
    """SANSR: the paper's figures, and ours where its study has been run."""
    printed = Paper("sansr").tables("overall")
    result = found_of("sansr")
    names = ("hit@10", "hit@20", "mrr@10", "mrr@20")
    lines = _head("data", "row", "HR@10", "HR@20", "MRR@10", "MRR@20")
    rows = result["tables"]["overall"] if result else []
    for data in printed:
        table = printed[data]["sansr"]
        lines.append(_line(data, "SANSR, paper", [f"{100 * table[name]:.2f}" for name in names]))
        of_data = _of(rows, data=data)
        for model, output in (("sansr", "SANSR, ours"), ("blend", "`blend`, ours")):
            for row in _of(of_data, model=model):
                lines.append(_line(data, f"{output}, protocol {row['protocol']}", _figures(row, names)))
        for protocol in dict.fromkeys(row["protocol"] for row in of_data):
            counting = [row for row in _of(of_data, protocol=protocol) if row["model"] in NEXT_COUNTING]
            if counting:
                best = max(counting, key=lambda row: row.get("mrr@20", 0.0))
                lines.append(_line(data, f"best baseline: {best['model']}, protocol {protocol}", _figures(best, names)))
    if result is None:
        lines += ["", "`ensue reproduce sansr` writes our results; there are none yet."]
    return "\n".join(lines)


def anywhere() -> str:
    """Return how often `best` is significantly better than the best baseline, by task, and the longest training."""
    verdicts = _required("anywhere")["tables"]["paired_tests"]
    lines = _head(
        "task", "subsets", *(f"`best` {OUTCOMES[name]}" for name in OUTCOMES), "median difference", "longest training"
    )
    for task in (*dict.fromkeys(row["task"] for row in verdicts), None):
        ours = verdicts if task is None else [row for row in verdicts if row["task"] == task]
        counts = [str(sum(row["outcome"] == outcome for row in ours)) for outcome in OUTCOMES]
        better = median(row["difference"] / row["baseline_score"] for row in ours if row["baseline_score"])
        longest = max(ours, key=lambda row: row["seconds"])
        took = f"{longest['seconds'] / 60:.0f} min ({longest['data']}, {longest['part']})"
        lines.append(_line(task or "all", str(len(ours)), [*counts, f"{100 * better:+.1f} %", took]))
    return "\n".join(lines)


LEADS: dict[str, Callable[[], str]] = {
    "hidan": hidan,
    "sansr": sansr,
    "mtn": mtn,
    "centrality": centrality,
    "ast": ast,
    "anywhere": anywhere,
}


def _ours(
    rows: Sequence[Row], said: Mapping[str, str], counting: Iterable[str], by: str, names: Sequence[str]
) -> list[str]:
    """For each set of data the rows of some models, and below them the best counting row by a measure."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        of_data = _of(rows, data=data)
        lines += [
            _line(data, name, _figures(row, names)) for model, name in said.items() for row in _of(of_data, model=model)
        ]
        best = max((row for row in of_data if row["model"] in counting), key=lambda row: row[by])
        lines.append(_line(data, f"best baseline: {best['model']}", _figures(best, names)))
    return lines


def _required(paper: str) -> dict[str, Any]:
    result = found_of(paper)
    assert result is not None, paper
    return result


def _of(rows: Iterable[Row], **wanted: str) -> list[Row]:
    """The rows with these values, of all test cases."""
    return [
        row
        for row in rows
        if all(row.get(name) == value for name, value in wanted.items()) and row.get("cascades", "all") == "all"
    ]


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _line(data: str, row: str, cells: Sequence[str]) -> str:
    return f"| {data} | {row} | {' | '.join(cells)} |"


def _printed(row: Row, names: Sequence[str]) -> list[str]:
    return [f"{100 * row[name]:.2f}" if name in row else NO_FIGURE for name in names]


def _figures(row: Row, names: Sequence[str]) -> list[str]:
    """Figures x 100 and half their intervals; a dash where the study does not measure one."""
    cells = []
    for name in names:
        if name not in row:
            cells.append(NO_FIGURE)
        elif name in row.get("interval", ()):
            low, high = row["interval"][name]
            cells.append(f"{100 * row[name]:.2f} ± {50 * (high - low):.2f}")
        else:
            cells.append(f"{100 * row[name]:.2f}")
    return cells
