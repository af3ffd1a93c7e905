"""Figures that are typed into a page are those of the file of results that the page names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from ensue.significance import LEVEL
from ensue_studies.anywhere import FULL
from ensue_studies.centrality import BASELINES, SVC
from scripts.site import papers
from scripts.site.blocks import ROOT, pages
from scripts.site.tables import load
from tests.cli.conftest import listed

REVIEW = (ROOT / "docs" / "guides" / "screen_posts.md").read_text(encoding="utf-8")
ROWS = {
    "suggested cut": "suggested",
    "one fixed score for all stories": "fixed score",
    "Otsu's method": "otsu",
    "the largest gap": "largest gap",
    "the best cut, for one who knows the labels": "best cut",
}


def test_the_cuts_of_reviews_are_those_that_were_measured() -> None:
    found = [
        row for row in load("benchmarks/results/cuts.json")["rows"] if (row["part"], row["score"]) == ("test", "best")
    ]
    assert [row["set"] for row in found] == ["politifact", "clickbait22"]
    for shown, name in ROWS.items():
        cells = " | ".join(f"{row[name]:.3f}".lstrip("0") for row in found)
        assert f"| {shown} | {cells} |" in REVIEW
    covered = [f"{100 * row['covered']:.0f}" for row in found]
    assert f"| stories whose best cut lies in the interval | {covered[0]} % | {covered[1]} % |" in REVIEW
    assert f"of {covered[0]} and {covered[1]} % of new stories" in REVIEW
    table = REVIEW.split("| F1, mean over stories |")[1].split("\n\n")[0]
    assert len(re.findall(r"\.\d{3}", table)) == 2 * len(ROWS)


def _one(rows: list[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    """The row of these values."""
    (found,) = (row for row in rows if all(row.get(name) == value for name, value in wanted.items()))
    return found


def _pair(found: dict[str, float], digits: int) -> str:
    return f"{found['predicted']:.{digits}f} / {found['measured']:.{digits}f}"


def _large_logs() -> Iterator[str]:
    found = load("benchmarks/results/predicted.json")
    checks, names = found["checks"], ("cpu_seconds_a_step", "memory_mb", "kilobytes_to_the_group_a_step_2_ranks")
    for row in checks:
        time, memory, sent = (_pair(row[name], digits) for name, digits in zip(names, (3, 0, 0), strict=True))
        yield f"| {row['items']:,} | {row['batch']:,} | {time} | {memory} | {sent} |"
    assert all(0.8 <= row[name]["ratio"] <= 1.2 for row in checks for name in names)
    yield "All nine are within a fifth"
    yield f"SANSR at width {checks[0]['dim']} with {checks[0]['negatives']:,} negatives"
    one, eight, many = found["predictions"]
    assert (one["ranks"], eight["ranks"], many["ranks"]) == (1, 8, 64)
    hours = [f"{own['hours_an_epoch']:.2f}" for own in (one, eight, many)]
    yield f"takes {hours[0]} hours on one machine, {hours[1]} on 8 and {hours[2]} on 64"
    yield f"an epoch of {one['events'] // 10**6} million events over {one['items'] // 10**6} million items"
    yield f"in batches of {one['batch']:,} sessions"
    yield f"{one['gigabytes_a_rank']:.1f} GB a process"


def _streams() -> Iterator[str]:
    found = load("benchmarks/results/stream_size.json")
    assert found["items"] == 10**6
    yield f"SANSR at width {found['dim']} with {found['negatives']} negatives, {found['events']:,} events"
    yield f"`--eval-fraction {found['score']}`, one thread"
    yield f"{found['events_a_cpu_second']:,.0f} events a CPU second"
    median, most = found["journal_commit_seconds"]
    yield f"{median + 1e-9:.2f} s in the median and {most:.2f} s at most, of {found['journal_megabytes_median']:.0f} MB"
    slow, quick = sorted(found["folder_commit_seconds"], reverse=True)
    yield f"a whole folder {quick:.0f} to {slow:.0f} s"
    yield f"memory between {min(found['memory_mb']):,} and {max(found['memory_mb']):,} MB"
    rows = load("benchmarks/results/kill_consumers.json")["rows"]
    assert not any(row["rounds_that_differ"] or row["folders_that_do_not_load"] for row in rows)
    assert {(row["source"], row["kills"], row["consumers"]) for row in rows} == {("keys", 200, 2), ("kafka", 200, 2)}
    yield f"`kill -9` at {rows[0]['kills']} random moments each of two consumers"


def _service() -> Iterator[str]:
    found = load("benchmarks/results/load.json")
    assert found["swap"]["requests"] and found["update"]["requests"] and found["all"]["errors"] == 0
    yield f"sends {found['rate']:.0f} requests a second to a service over {found['items']:,} items, one swap and"


def _hidan() -> Iterator[str]:
    rows = load("studies/results/hidan_baselines.json")["tables"]["paired_tests"]
    tests = [row for row in rows if (row["protocol"], row["cascades"], row["metric"]) == ("full", "all", "mrr")]
    assert len(tests) == 6 and all(row["low"] > 0 and row["p_value"] < 0.05 for row in tests)
    yield "significantly above that of the best baseline on all six data sets"


def _mtn() -> Iterator[str]:
    rows = load("studies/results/mtn.json")["tables"]["paired_tests"]
    own = _one(rows, data="msmarco", model="mtn", other="seq2seq", metric="bleu")
    mean, low, high = (f"{100 * own[name]:+.2f}" for name in ("difference", "low", "high"))
    yield f"(Seq2Seq: {mean}, {low} to {high}, not significant)"
    assert own["p_value"] > 0.05
    rows = load("studies/results/mtn_counted.json")["tables"]["paired_tests"]
    for metric, is_significant in (("mrr@10", True), ("bleu", False)):
        own = _one(rows, data="msmarco", model="mtn", other="co-occurrence", metric=metric)
        mean, low, high = (f"{100 * own[name]:+.2f}" for name in ("difference", "low", "high"))
        assert (own["p_value"] < 0.05) is is_significant
        yield f"{mean}, {low} to {high})"
    rows = load("studies/results/mtn_baselines.json")["tables"]["paired_tests"]
    for metric, ending in (("mrr@10", ";"), ("bleu", ", not significant)")):
        own = _one(rows, data="msmarco", model="best", other="co-occurrence", metric=metric)
        mean, low, high = (f"{100 * own[name]:+.2f}" for name in ("difference", "low", "high"))
        assert (own["p_value"] < 0.05) is (ending == ";")
        yield f"{mean}, {low} to {high}{ending}"


def _ast() -> Iterator[str]:
    tables = load("studies/results/ast.json")["tables"]

    def apart(data: str, other: str, measure: str, model: str = "ast") -> int:
        """Whether AST is significantly above (1) or below (-1) another row."""
        row = _one(tables["paired_tests"], data=data, model=model, other=other, metric=measure)
        return 0 if row["p_value"] >= 0.05 else 1 if row["difference"] > 0 else -1

    assert (apart("politifact", "tfidf", "mrr"), apart("clickbait22", "tfidf", "mrr")) == (1, 0)
    yield "ranks PolitiFact significantly better than TF-IDF and Clickbait22 about as well"
    encoders = ("cnn", "gru", "bigru")
    assert all(apart(data, other, "mrr") >= 0 for data in ("politifact", "clickbait22") for other in encoders)
    assert {apart("clickbait22", other, "pooled_ap") for other in encoders} == {1}
    assert {apart("politifact", other, "pooled_ap") for other in encoders} == {0}
    yield "pooled, it is significantly better than all three on Clickbait22"
    yield "with no significant difference on PolitiFact"
    both = [row for row in tables["paired_tests"] if (row["model"], row["other"]) == ("best+ast", "best")]
    assert {row["data"] for row in both} == {"politifact", "clickbait22"} and not any(row["difference"] for row in both)
    yield "`best+ast` leaves it out and ranks as `best` does"
    took = {(row["data"], row["model"]): row.get("epoch_seconds", 0.0) for row in tables["overall"]}
    shares = [took[data, "ast"] / took[data, other] for data in ("politifact", "clickbait22") for other in encoders]
    yield f"an epoch takes {100 * min(shares):.0f} to {100 * max(shares):.0f} % of their time"
    reviews = load("benchmarks/results/reviews.json")["rows"]
    few = {row["rule"]: row["reviews"] for row in reviews}
    assert few.pop("earlier stories") == few.pop("estimated recall") == 1_000 and set(few.values()) == {200}
    yield "1,000 simulated reviews per row for the two rules that stop the same readings, 200 for the others."
    assert min(row["right"] for row in reviews if row["rule"] == "earlier stories") >= 0.95  # as it promises


def _anywhere() -> Iterator[str]:
    cuts = tuple(FULL.sizes[kind] for kind in ("sessions", "labels", "queries", "posts"))
    assert cuts == ([500, 2_000, 10_000, 0], [100, 1_000, 0], [200, 2_000, 0], [50, 200, 0])  # 0: all
    yield "500, 2,000 and 10,000 sessions or cascades, the newest ones, and all; 100 and 1,000 labels, and all"
    yield "200 and 2,000 query sessions; 50 and 200 labelled posts"
    verdicts = load("studies/results/anywhere.json")["tables"]["paired_tests"]
    (worse,) = (row for row in verdicts if row["outcome"] == "worse")
    assert (worse["chosen"], worse["baseline"], worse["seeds"]) == ("cascade-blend", "vsknn", 1)
    yield f"significantly worse than its best baseline on one subset: the {worse['part']} of Globo, with one seed."
    mrr, of_baseline, difference, *ends = (
        f"{100 * worse[name]:.2f}" for name in ("best", "baseline_score", "difference", "low", "high")
    )
    yield f"The MRR of `cascade-blend` is {mrr} and that of `vsknn` {of_baseline}"
    yield f"(difference {difference}, 95 % CI {ends[0]} to {ends[1]})"
    small = re.compile(r"500 \w+|100 labels, .*|200 \w+ ?\w*")
    drawn = [row for row in verdicts if row["outcome"] == "equal"]
    tasks = ("next", "classify", "suggest", "link")
    counts = {model["name"] for task in tasks for model in listed(task) if model["counting"]}
    few = [row for row in drawn if small.search(row["part"]) or row["data"] == "sqa"]
    assert 2 * len(few) > len(drawn) and sum(row["chosen"] in counts for row in drawn) > 0.4 * len(drawn)
    yield "there is mostly little to learn: 500 sessions, 100 labels, questions that never repeat"
    counted = [row for row in verdicts if row["task"] == "next" and row["train_size"] <= 500]
    assert median(row["baseline_seconds"] for row in counted) < 0.15 < 1 < min(row["seconds"] for row in counted)
    yield "A small log is counted in a tenth of a second, and `best` takes seconds"


def _sansr() -> Iterator[str]:
    tables = load("studies/results/sansr.json")["tables"]
    full = [row for row in tables["overall"] if row["protocol"] == "full"]
    for data in {row["data"] for row in full}:
        mrr = {row["model"]: row["mrr@20"] for row in full if row["data"] == data}
        counted = mrr["interpolated"]
        assert max(mrr[name] for name in ("gru4rec", "narm", "stamp", "sansr", "sansr-rc")) < counted < mrr["blend"]
        (own, other) = (
            _one(tables["overall"], data=data, protocol="sampled", model=name)["mrr@20"]
            for name in ("sansr", "interpolated")
        )
        assert own > other > 0.8
    yield "In full ranking no network alone has a higher MRR@20 than the baseline `interpolated`, on either data set"
    yield "Among 101 candidates SANSR is better than `interpolated` too, and all metrics are high."
    best = {row["blocks"]: 0.0 for row in tables["grid"]}
    for row in tables["grid"]:
        if row["protocol"] == "full" and row["heads"] == 1:
            best[row["blocks"]] += row["ndcg@20"] / 2
    assert best[1] > best[0] + 0.02 and max(best.values()) - best[1] < 0.001
    yield "More than one block, or more than one head, does not improve the metrics here."


def _centrality() -> Iterator[str]:
    tables = load("studies/results/centrality.json")["tables"]
    here, paper = (_one(tables["statistics"], data="snli", row=row)["train"] for row in ("here", "paper"))
    yield f"SNLI has {here:,} training pairs here, not the {paper:,} of the paper"
    seeds: dict[str, set[int]] = {}
    for row in tables["overall"]:
        if row["model"] == "max":  # one of the poolings
            seeds.setdefault(row["data"], set()).add(row["seeds"])
    assert seeds["sst1"] == seeds["sst2"] == {5} and seeds["trec"] == {3} and seeds["snli"] == {1}
    yield "five seeds on SST, three on TREC, one elsewhere"
    yield from _linear_svc()
    tests = load("studies/results/tokenrank.json")["tables"]["paired_tests"]
    rank, bilinear = ("tokenrank", "centrality-bilinear")
    assert _one(tests, model=bilinear, other=rank)["p_value"] > LEVEL
    assert all(_one(tests, model=name, other="self-attention")["p_value"] < LEVEL for name in (rank, bilinear))
    yield "do not differ significantly, and self-attention is significantly better than both in this run"


def _linear_svc() -> Iterator[str]:
    tables = papers.text_tables()
    accuracy = {(row["data"], row["model"]): row["accuracy"] for row in tables["overall"]}
    sets = [data for data, model in accuracy if model == SVC]
    above = {
        (data, model)
        for data, model in accuracy
        if data in sets and model not in BASELINES and accuracy[data, model] < accuracy[data, SVC]
    }
    assert above == {("sst2", "routing"), ("sst2", "reverse-routing")}
    yield "On SST-2 its accuracy is above `routing` and `reverse-routing`; no other pooling, nor `blend`, is below it"
    tests = {row["data"]: row for row in tables["paired_tests"] if (row["model"], row["other"]) == ("tfidf", SVC)}
    assert all(row["difference"] > 0 for row in tests.values())
    assert {data for data, row in tests.items() if row["p_value"] < LEVEL} == {"sst1", "trec", "imdb-ratings"}
    assert tests.keys() == {"sst1", "sst2", "sst2-phrases", "trec", "imdb", "imdb-ratings"}
    yield "is nowhere above `tfidf`, which is significantly better on SST-1, TREC and IMDB's ratings, and does not"


def _label_sets() -> Iterator[str]:
    tables = load("benchmarks/results/label_sets.json")["tables"]
    reuters, films = tables["data"]
    yield f"headlines of Reuters-21578 with {reuters['labels']} topics ({reuters['train']:,} for training)"
    yield f"titles of MovieLens films with {films['labels']} genres ({films['train']:,} for training)"
    tests = [row for row in tables["paired_tests"] if row["model"] == "ensue, best"]
    micro = [row for row in tests if row["metric"] == "micro_f1"]
    assert len(micro) == 8 and all(row["difference"] > 0 and row["p_value"] < LEVEL for row in micro)
    yield "In micro F1 `best` is significantly better than each of the four on both."
    macro = [row for row in tests if row["metric"] == "macro_f1" and row["other"].endswith("tuned")]
    assert len(macro) == 4 and all(row["p_value"] > LEVEL for row in macro)
    yield "In macro F1 it does not differ significantly from the tuned ones."
    exact = _one(tests, data="movies", other="LinearSVC", metric="subset_accuracy")
    assert exact["difference"] < 0 and exact["p_value"] < LEVEL
    yield "On the films untuned LinearSVC has significantly more sets exactly right"


def _newcomers() -> Iterator[str]:
    found = load("benchmarks/results/newcomers.json")
    assert 0.19 < found["updated with"] / (found["learned"] + found["updated with"]) < 0.21
    yield "The latest fifth of the training cascades"
    yield f"{found['new users']} users are new."


def _speed() -> Iterator[str]:
    (items,) = {row["items"] for row in load("benchmarks/results/answers.json")["rows"]}
    yield f"The next click of a session out of {items:,} items"
    words = _one(load("studies/results/centrality.json")["tables"]["statistics"], data="sst2", row="here")[
        "mean_length"
    ]
    yield f"Sentences of reviews (SST-2, {words:.0f} words on average)"
    cost = load("studies/results/hidan.json")["tables"]["cost"]
    times = {(row["data"], row["model"]): row["paper_seconds"] for row in cost if row["paper_seconds"]}
    shares = [times[data, "hidan"] / times[data, "lstm"] for data in ("memes", "weibo", "twitter")]
    yield f"(HiDAN takes {min(shares):.2f} to {max(shares):.2f} of its time on the paper's GPU)"


PROSE = {
    "docs/operate/large_logs.md": _large_logs,
    "docs/operate/partitioned_streams.md": _streams,
    "docs/operate/service.md": _service,
    "docs/results/hidan.md": _hidan,
    "docs/results/mtn.md": _mtn,
    "docs/results/ast.md": _ast,
    "docs/results/best_vs_baselines.md": _anywhere,
    "docs/results/sansr.md": _sansr,
    "docs/results/centrality.md": _centrality,
    "docs/guides/classify_texts.md": _label_sets,
    "docs/results/new_users.md": _newcomers,
    "docs/results/speed.md": _speed,
}


@pytest.mark.parametrize("page", PROSE)
def test_figures_in_sentences_are_those_of_the_results(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for sentence in PROSE[page]():
        assert sentence in text


def test_no_page_quotes_a_measurement_that_no_test_knows() -> None:
    """A page that names a file of results, or an amount a second, is one of those above, or shows figures of none."""
    measured = re.compile(r"\d (?:ms|CPU seconds|requests a second|events a (?:CPU )?second|MB in|GB a process)\b")
    for path in pages():
        name = path.relative_to(ROOT).as_posix()
        prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert name in PROSE or not measured.search(prose), name
