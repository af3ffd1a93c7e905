"""Tables of the results pages as Markdown, from ``studies/results`` and ``benchmarks/results``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from ensue.metrics import label
from ensue.tasks.next.catalogue import COUNTING
from scripts.site import papers

ROOT = Path(__file__).parents[2]
_HIDAN = ("memes", "weibo", "twitter")
_SHOWN = ("lstm", "att-lstm", "rmtpp", "hidan", "cascade-blend")
_LOSSES = {"sampled": "shared negatives", "ce": "softmax over all"}


def hidan() -> str:
    """Return HiDAN, the models of its paper, ours and the best baseline, from ``studies/results/hidan*.json``."""
    lines = ["| data | protocol | model | seeds | MRR | HR@10 | HR@50 | HR@100 | MAP@100 |", "|---" * 9 + "|"]
    tables: dict[tuple[str, str], list[Any]] = {}
    for row in papers.rows_of("hidan", "prediction"):
        if row.get("cascades", "all") == "all" and (row["protocol"] != "macro" or row["data"] in _HIDAN):
            tables.setdefault((row["data"], row["protocol"]), []).append(row)
    sets = [*dict.fromkeys(data for data, _ in tables)]
    for (data, protocol), rows in sorted(tables.items(), key=lambda entry: sets.index(entry[0][0])):
        counts = max((row for row in rows if row["model"] in COUNTING), key=lambda row: row["mrr"], default=None)
        for row in rows:
            if row["model"] in _SHOWN or row is counts or "interval" not in row:
                cells = " | ".join(spread(row, name) for name in ("mrr", "hit@10", "hit@50", "hit@100", "mrr@100"))
                lines.append(f"| {data} | {protocol} | {row['model']} | {row.get('seeds', '')} | {cells} |")
    return "\n".join([*lines, "", *sources_of("hidan")])


def sources_of(paper: str) -> list[str]:
    """Return the sources of :func:`scripts.site.papers.rows_of`."""
    return [source(load(f"studies/results/{name}.json")) for name in (paper, f"{paper}_baselines")]


def sources() -> str:
    """Return how often the selected earlier user has an edge of the true graph to the user."""
    result = load("studies/results/hidan.json")
    rows = result["tables"]["sources"]
    lines = ["| row | selected by | true edges | ratio to random |", "|---" * 4 + "|"]
    all_entries = [(row["model"], row["by"], row["precision"]) for row in rows]
    all_entries += [
        ("the latest user" if name == "latest" else "a random user", "", rows[0][name]) for name in ("latest", "chance")
    ]
    for name, way, share in all_entries:
        lines.append(f"| {name} | {way} | {100 * share:.1f} % | {share / rows[0]['chance']:.2f} |")
    return "\n".join([*lines, "", source(result)])


def spread(row: Any, name: str) -> str:
    """Return a metric in % and half its interval."""
    if name not in row.get("interval", ()):
        return f"{100 * row[name]:.2f}" if name in row else ""
    low, high = row["interval"][name]
    return f"{100 * row[name]:.2f} ± {50 * (high - low):.2f}"


def speed() -> str:
    """Return the ratios of the benchmarks."""
    lines = ["| what | compared with | ratio |", "|---|---|---|"]
    epoch = load("benchmarks/results/epoch.json")
    for row in epoch["rows"]:
        if row["model"] != "hidan":
            label = f"one epoch of HiDAN, {row['users']:,} users, mean length 24"
            lines.append(f"| {label} | {row['model']} | {row['hidan_over_it']} |")
    reading = load("benchmarks/results/reading.json")
    for row in reading["rows"]:
        if not row["reader"].startswith("ensue"):
            lines.append(f"| reading 10 million events from CSV, CPU time | {row['reader']} | {row['ensue_over_it']} |")
    sessions = load("benchmarks/results/sessions.json")
    for row in sessions["rows"]:
        if not row["model"].startswith("sansr"):
            name, _, loss = row["model"].partition(", ")
            label = f"one epoch of SANSR, {row['items']:,} items, {_LOSSES[loss]}"
            lines.append(f"| {label} | {name} | {row['sansr_over_it']} |")
    pooling = load("benchmarks/results/pooling.json")
    for row in pooling["tables"]["training"]:
        if row["model"].startswith("centrality"):
            label = f"one training step of {row['model']}, 64 texts, {row['lengths'].replace('each', 'words each')}"
            lines.append(f"| {label} | self-attention | {row['ratio']} |")
    normalisers = load("benchmarks/results/normalisers.json")
    for row in normalisers["tables"]["entmax"]:
        if row["alpha"] == "learned" and row["shape"] != "ring, copied":
            label = f"alpha-entmax, forward and backward, alpha trained, {tuple(row['size'])}"
            lines.append(f"| {label} | bisection, 50 steps | {round(1 / row['times_faster'], 3)} |")
    return "\n".join([*lines, "", *map(source, (epoch, reading, sessions, pooling, normalisers))])


def answers() -> str:
    """Milliseconds of one answer, and answers a second in batches."""
    result = load("benchmarks/results/answers.json")
    lines = [
        "| model | attributions | one answer, median | 95th percentile | batches of 256 |",
        "|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        evidence = "with" if row["evidence"] else "without"
        single = f"{row['median_ms']:.1f} ms | {row['p95_ms']:.1f} ms"
        lines.append(f"| {row['model']} | {evidence} | {single} | {row['answers_a_second']:,} per second |")
    return "\n".join([*lines, "", source(result)])


def metrics_of_rows(rows: list[papers.Row], names: dict[str, str]) -> list[str]:
    """Return a line per data set and model of a study, with the metrics that are named."""
    lines = [f"| data | model | seeds | {' | '.join(names.values())} |", "|---" * (3 + len(names)) + "|"]
    for row in rows:
        cells = " | ".join(spread(row, name) for name in names)
        lines.append(f"| {row['data']} | {row['model']} | {row['seeds']} | {cells} |")
    return lines


def queries() -> str:
    """Return BLEU, content words and MRR of the true next query, by data set and model."""
    names = {"bleu": "BLEU", "content@1": "content words", "mrr@10": "MRR@10", "recall@10": "recall@10"}
    rows = sorted(papers.rows_of("mtn", "overall"), key=lambda row: str(row["data"]))
    return "\n".join([*metrics_of_rows(rows, names), "", *sources_of("mtn")])


def suggestions() -> str:
    """Milliseconds of five suggestions, suggestions a second beside a peer, and what training MTN costs."""
    result = load("benchmarks/results/suggestions.json")
    lines = ["| model | attributions | one answer, median | 95th percentile |", "|---|---|---|---|"]
    for row in result["tables"]["answers"]:
        evidence = "with" if row["evidence"] else "without"
        lines.append(f"| {row['model']} | {evidence} | {row['median_ms']:.1f} ms | {row['p95_ms']:.1f} ms |")
    lines += ["", "| in batches of 32 | suggestions per second | ratio of the first row |", "|---|---|---|"]
    for row in result["tables"]["throughput"]:
        lines.append(f"| {row['model']} | {row['suggestions_a_second']:,} | {row['ours_over_it']} |")
    (ratio,) = (row["cpu_over_transformer"] for row in result["tables"]["training"] if row["model"] == "mtn")
    lines += [
        "",
        f"One training step of MTN takes {ratio} of the time of a Transformer of equal depth on the same batches.",
    ]
    return "\n".join([*lines, "", source(result)])


def newcomers() -> str:
    """Return the metrics of new and of known users before and after an update."""
    result = load("benchmarks/results/newcomers.json")
    moved = {"after update": "answers after update", "trained on all": "answers of training on all"}
    seconds = {"after update": result["seconds"]["update"], "trained on all": result["seconds"]["training on all"]}
    lines = ["| | known users, MRR | new users, HR@10 | unchanged first answers | seconds |", "|---" * 5 + "|"]
    for name in ("before", *moved):
        stays = f"{100 * result[moved[name]]['first of ten stays']:.0f} %" if name in moved else ""
        took = f"{seconds[name]:.0f}" if name in seconds else ""
        known_ids, new = (100 * result[name][who][label] for who, label in (("known", "mrr"), ("newcomers", "hit@10")))
        lines.append(f"| {name} | {known_ids:.2f} | {new:.1f} | {stays} | {took} |")
    return "\n".join([*lines, "", source(result)])


def reviews() -> str:
    """Return the posts that a simulated review reads before it stops, and how often stopping was right."""
    result = load("benchmarks/results/reviews.json")
    lines = [
        "| data | target recall | stopping rule | reviews | target met | posts read | ratio to the oracle | recall |"
    ]
    lines.append("|---" * 8 + "|")
    for row in result["rows"]:
        correct, read, recall = (f"{100 * row[name]:.1f} %" for name in ("right", "read", "recall"))
        listed = (f"{100 * row['target']:.0f} %", row["rule"], f"{row['reviews']:,}", correct, read)
        lines.append(f"| {row['data']} | {' | '.join(listed)} | {row['over_oracle']:.2f} x | {recall} |")
    return "\n".join([*lines, "", source(result)])


LINKS = {"mrr": "MRR", "recall@10": "R@10", "pooled_ap": "AP, pooled", "mrp": "mRP", "auc": "AUC"}


def links(study: str = "ast") -> str:
    """Return posts that rank articles, and pairs in one pool."""
    result = load(f"studies/results/{study}.json")
    return "\n".join([*metrics_of_rows(result["tables"]["overall"], LINKS), "", source(result)])


def learned_temperature() -> str:
    """Return the same of AST with and without the learned temperature of ASEntmax, trained in one run."""
    return links("asentmax")


def linking() -> str:
    """Return the cost of doubling an article, posts per second next to a peer, and a million posts."""
    result = load("benchmarks/results/linking.json")
    tables = result["tables"]
    lines = [
        "| words of an article | ms per article | ratio to half the words | MB | ratio to half the words |",
        "|---" * 5 + "|",
    ]
    for row in tables["length"]:
        over = {name: row[f"{name}_over_half"] or "" for name in ("ms", "mb")}
        lines.append(f"| {row['words']:,} | {row['ms']} | {over['ms']} | {row['mb']} | {over['mb']} |")
    lines += ["", "| encoder | posts per second | ratio of the first row |", "|---|---|---|"]
    for row in tables["rate"]:
        lines.append(f"| {row['model']} | {row['posts_a_second']:,} | {row.get('ours_over_it', 1.0)} |")
    (row,) = tables["million"]
    lines += [
        "",
        f"{row['posts']:,} posts, encoded once in {row['encode_s']:,.0f} s: the {result['found']:,} best of each of "
        f"{row['articles']} articles in {row['answer_s']} s, opening the index and encoding the articles included, "
        f"with {row['peak_mb'] / 1000:.2f} GB at most. Searching the {row['near']} best of one article takes "
        f"{row['exact_ms']:.0f} ms; with {row['probes']} cells probed (made in {row['cells_s']:.0f} s) "
        f"{row['probed_ms']:.0f} ms, and {100 * row['found_of_exact']:.0f} % of them are found, though these posts are "
        "words drawn at random.",
    ]
    return "\n".join([*lines, "", source(result)])


def linking_at_size() -> str:
    """Return time and memory of ``ensue link`` on untrained posts and articles, and of one answer."""
    result = load("benchmarks/results/linking_at_size.json")
    lines = ["| posts | articles | MB of posts | CPU seconds | GB |", "|---" * 5 + "|"]
    for row in result["sizes"]:
        cells = f"{row['posts']:,} | {row['articles']:,} | {row['file_mb']:.0f} | {row['cpu_seconds']:.0f}"
        lines.append(f"| {cells} | {row['memory_mb'] / 1000:.2f} |")
    bare, evident = result["answers"]
    lines += [
        "",
        f"One post against {bare['articles']} articles on one core, half of them within, 95 % within: "
        f"{bare['p50_ms']} and {bare['p95_ms']} ms; with evidence {evident['p50_ms']} and {evident['p95_ms']} ms.",
    ]
    return "\n".join([*lines, "", source(result)])


def texts() -> str:
    """Return texts per second, milliseconds of one text and accuracy."""
    result = load("benchmarks/results/texts.json")
    lines = ["| model | texts per CPU second | one text, ms | accuracy |", "|---" * 4 + "|"]
    lines += [
        f"| {row['model']} | {row['texts_per_cpu_second']:,} | {row['one_text_cpu_ms']:.2f} | {row['accuracy']:.3f} |"
        for row in result["rows"]
    ]
    return "\n".join([*lines, "", source(result)])


def peers() -> str:
    """Return count-based models next to the fastest library of their task."""
    result = load("benchmarks/results/peers.json")
    head = "| task | model | fit, CPU seconds | answers per CPU second | one answer, ms | hits, % |"
    lines = [head, "|---" * 6 + "|"]
    lines += [
        f"| {row['task']} | {row['model']} | {row['fit_cpu_seconds']} | {row['per_cpu_second']:,} | "
        f"{row['one_cpu_ms']:.2f} | {row['hits']} |"
        for row in result["rows"]
    ]
    return "\n".join([*lines, "", source(result)])


def sasrec() -> str:
    """Return SASRec here and in RecTools: the mean over seeds, and the lowest and highest of them."""
    result = load("benchmarks/results/sasrec.json")
    metrics = ("hit@10", "ndcg@10", "mrr@20")
    lines = [f"| model | targets | {' | '.join(map(label, metrics))} |", "|---" * 5 + "|"]
    for row in result["rows"]:
        cells = (f"{mean(row[name]):.2f} ({min(row[name]):.2f} to {max(row[name]):.2f})" for name in metrics)
        lines.append(f"| {row['model']} | {row['targets']:,} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", source(result)])


def comparison() -> str:
    """Return models that papers compare with and the baselines on the same sessions, and their paired tests."""
    result = load("benchmarks/results/comparison.json")
    metrics = ("hit@10", "hit@20", "mrr", "ndcg@10")
    lines = [f"| data | model | epochs | {' | '.join(map(label, metrics))} |", "|---" * 7 + "|"]
    tests = ["| data | metric | better | than | points (95 % CI) | p, corrected |", "|---" * 6 + "|"]
    for name, found in result["sets"].items():
        for row in found["rows"]:
            epochs = ", ".join(map(str, row["epochs"]))
            cells = " | ".join(spread(row, metric) for metric in metrics)
            lines.append(f"| {name} | {row['model']} | {epochs} | {cells} |")
        for pair in found["paired_tests"]:
            low, high = (f"{100 * pair[end]:.2f}" for end in ("low", "high"))
            corrected = f"{pair['corrected']:.3f}" if pair["corrected"] >= 0.001 else "< 0.001"
            shown = f"{100 * pair['difference']:.2f} ({low} to {high}) | {corrected}"
            tests.append(f"| {name} | {label(pair['measure'])} | {pair['model']} | {pair['other']} | {shown} |")
    return "\n".join([*lines, "", *tests, "", *map(source, result["sets"].values())])


def defaults() -> str:
    """Return time, memory and metrics of fits with default settings, those of an earlier commit, and a peer's."""
    result = load("benchmarks/results/defaults.json")
    head = (
        "| data | rows | model | fit, CPU seconds | before | peak, MB | before | HR@20 or accuracy, % | before | peer |"
    )
    lines = [head, "|---" * 10 + "|"]
    for name, row in result["sets"].items():
        if "after" not in row:
            continue
        metric = "hit@20" if row["task"] == "next" else "accuracy"
        now = row["after"]
        start = row.get("before")
        costs = [
            [f"{run['cpu_seconds']:.1f}", f"{run['peak_mb']:,.0f}", _percent(run, metric)]
            for run in (now, start)
            if run
        ]
        cells = [text for pair in zip(costs[0], costs[-1] if start else [""] * 3, strict=True) for text in pair]
        peer = row["peer"]
        cells.append(f"{100 * peer[metric]:.1f} in {peer['cpu_seconds']:.1f} s" if peer else "")
        lines.append(f"| {name} | {row['rows']:,} | {now['model']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", source(result)])


def _percent(run: dict[str, Any], metric: str) -> str:
    """Return a metric in percent with half its interval."""
    low, high = run["metrics"][metric]["interval"]
    return f"{100 * run['metrics'][metric]['value']:.1f} ±{50 * (high - low):.1f}"


def growth() -> str:
    """Return the CPU seconds of fit and evaluate by the size of a log."""
    result = load("benchmarks/results/growth.json")
    head = f"| model | events | items | fit, CPU seconds | evaluate {result['test_sessions']:,} sessions, CPU seconds |"
    lines = [head, "|---" * 5 + "|"]
    lines += [
        f"| {row['model']} | {row['events']:,} | {row['items']:,} | {row['fit']} | {row['evaluate']} |"
        for row in result["rows"]
    ]
    lines += [
        f"| {model} | exponent | | {exponents['fit']} | {exponents['evaluate']} |"
        for model, exponents in result["exponents"].items()
    ]
    return "\n".join([*lines, "", source(result)])


def poolings() -> str:
    """Return the accuracy of poolings and baselines, one column per data set."""
    results = (load(f"studies/results/{name}.json") for name in ("centrality", "centrality_baselines"))
    return "\n".join([_poolings(papers.text_rows()), "", *map(source, results)])


def token_rank() -> str:
    """Return the same of TokenRank and the poolings it is compared with, trained in one run."""
    result = load("studies/results/tokenrank.json")
    return "\n".join([_poolings(result["tables"]["overall"]), "", source(result)])


def label_sets() -> str:
    """Return ours and scikit-learn's one-vs-rest on texts with several labels."""
    result = load("benchmarks/results/label_sets.json")
    names = {"micro_f1": "micro F1", "macro_f1": "macro F1", "subset_accuracy": "subset accuracy", "lrap": "LRAP"}
    lines = [f"| data | model | {' | '.join(names.values())} | fit, CPU seconds |", "|---" * 7 + "|"]
    for row in result["tables"]["overall"]:
        cells = " | ".join(spread(row, name) for name in names)
        lines.append(f"| {row['data']} | {row['model']} | {cells} | {row['fit_cpu_seconds']} |")
    return "\n".join([*lines, "", source(result)])


def _poolings(all_rows: list[dict[str, Any]]) -> str:
    rows = {(row["data"], row["model"]): row for row in all_rows}
    sets, models = (list(dict.fromkeys(key[side] for key in rows)) for side in (0, 1))
    lines = [f"| model | {' | '.join(sets)} |", "|---" * (1 + len(sets)) + "|"]
    for model in models:
        cells = [_accuracy(rows[data, model]) if (data, model) in rows else "" for data in sets]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _accuracy(row: dict[str, Any]) -> str:
    low, high = row["interval"]["accuracy"]
    return f"{100 * row['accuracy']:.1f} ± {50 * (high - low):.1f}"


def stream() -> str:
    """Return the results of the stream, of the kill test and of the large log."""
    names = ("globo", "globo_followers", "kill", "memory")
    news, followers, kill, large = (load(f"benchmarks/results/{name}.json") for name in names)
    hours = news["hour_by_hour"]
    lines = [f"| {news['events']:,} clicks of a news site, HR@20 | all | hours in which the model is better |"]
    lines += ["|---|---|---|", f"| {news['model']} | {overall(news, 'model')} | |"]
    for name in (name for name in hours if isinstance(hours[name], dict)):
        larger = f"{hours[name]['above']} of {hours['hours']}, smallest difference {hours[name]['closest']:+.3f}"
        lines.append(f"| {name} | {overall(news, name)} | {larger} |")
    of_hour = {hour["begins"]: hour["hr@20"] for hour in followers["hours"]}
    differences = [
        hour["figures"]["model"]["hr@20"] - of_hour[hour["begins"]]
        for hour in news["hours"]
        if hour["targets"] >= hours["least_targets"]
    ]
    larger = f"{sum(each > 0 for each in differences)} of {hours['hours']}, smallest difference {min(differences):+.3f}"
    lines.append(f"| latest {followers['latest']} followers of an article | {followers['hr@20']:.3f} | {larger} |")
    killed = sum(row["kills"] for row in kill["rows"])
    differ = sum(row["rounds_that_differ"] + row["folders_that_do_not_load"] for row in kill["rows"])
    rate = f"{news['events_a_second']:,.0f} events per second"
    peak = f"at most {news['peak_mb'] / 1000:.2f} GB"
    lines += [
        "",
        f"Hours with at least {hours['least_targets']:,} targets. One pass, baselines included: {rate}, {peak}.",
        f"`kill -9` at {killed} random moments of a stream, {len(kill['rows'])} kinds of source: {differ} differ from "
        "the uninterrupted stream.",
        f"A log of {large['clicks']:,} clicks, {large['items']:,} items and {large['sessions']:,} sessions, read, "
        f"split and trained on for one epoch: at most {large['peak_mb'] / 1000:.2f} GB.",
        "",
    ]
    return "\n".join([*lines, *map(source, (news, followers, kill, large))])


def gpu() -> str:
    """Return the seconds of one epoch on a CPU and on a GPU, from ``benchmarks/results/gpu.json``."""
    result = load("benchmarks/results/gpu.json")
    lines = ["| model | data | CPU, s per epoch | GPU, s per epoch | ratio |", "|---" * 5 + "|"]
    for row in result["at_size"]:
        settings = "".join(f", {name}={value}" for name, value in row["settings"].items() if name == "dim")
        cpu = row["seconds_an_epoch_cpu"]
        gpu = row["seconds_an_epoch_cuda"]
        lines.append(f"| {row['model']}{settings} | {row['data']} | {cpu:.1f} | {gpu:.1f} | {cpu / gpu:.1f} |")
    return "\n".join([*lines, "", source(result["runs"][0])])


def exports() -> str:
    """Return the losses and sizes of exported networks, from ``benchmarks/results/exports.json``."""
    result = load("benchmarks/results/exports.json")
    heads = (
        "task, model | data, metric (%) | PyTorch | float32 | int8 | int8, points | difference | of int8 | weights | "
        "float32 | int8"
    )
    lines = [f"| {heads} |", "|---" * 11 + "|"]
    for row in result["rows"]:
        metrics = [f"{100 * row['metrics'][name]:.2f}" for name in ("torch", "float32", "int8")]
        change = f"{100 * (row['metrics']['int8'] - row['metrics']['torch']):+.2f}"
        gaps = [f"{row[f'{name}_difference']:.0e}" for name in ("float32", "int8")]
        sizes = [f"{row[f'{name}_bytes'] / 1e6:.1f} MB" for name in ("weights", "float32", "int8")]
        cells = [f"{row['task']}, {row['model']}", f"{row['data']}, {label(row['metric'])}", *metrics, change]
        lines.append(f"| {' | '.join([*cells, *gaps, *sizes])} |")
    torch, onnx = (result["service"][name] for name in ("torch", "onnx"))
    installed = result["packages"]
    footprint = (
        f"A service with the folder of sansr holds {torch['megabytes']:.0f} MB of memory after its first answer, "
        f"{torch['seconds']:.1f} s after its start; with the export, {onnx['megabytes']:.0f} MB and "
        f"{onnx['seconds']:.1f} s. PyTorch and what it needs are {installed['torch']:,.0f} MB of files, onnxruntime "
        f"{installed['onnx']:,.0f} MB."
    )
    return "\n".join([*lines, "", footprint, "", *map(source, result["runs"])])


def overall(news: dict[str, Any], name: str) -> str:
    """HR@20 over all hours."""
    sums = [(hour["targets"], hour["figures"].get(name, {}).get("hr@20", 0.0)) for hour in news["hours"]]
    return f"{sum(targets * figure for targets, figure in sums) / sum(targets for targets, _ in sums):.3f}"


def load(path: str) -> dict[str, Any]:
    """Return a file of results."""
    result: dict[str, Any] = json.loads((ROOT / path).read_text())
    return result


def source(found: dict[str, Any]) -> str:
    """Return the command, the commit and the machine of a result."""
    return f"Generated by `{found['command']}` at {found['commit']} on {found['machine']}."


def rules() -> str:
    """Return the price of rules: processor time of a request with each, compared with the same request without."""
    labels = {
        "plain": "none",
        "one filter": "`price < 50`",
        "three filters": "three filters",
        "stored": "a stored list of 100,000 ids to exclude",
        "stored, filter, one excluded": "a stored list, a filter and one excluded item",
        "two per brand": "`max_per`: two per brand",
        "mmr": "`diversify`: `mmr=0.3`",
    }
    costs = load("benchmarks/results/rules.json")["costs"]
    lines = ["| rule | one answer, ms | compared with no rule |", "|---|---|---|"]
    for name, rule in labels.items():
        lines.append(f"| {rule} | {costs[name]['ms']:.2f} | {costs[name]['ratio']:.2f} |")
    return "\n".join(lines)


def tuning() -> str:
    """Return what ``ensue tune`` gains over the defaults, from ``benchmarks/results/tuning.json``."""
    rows = load("benchmarks/results/tuning.json")["rows"]
    heads = "model | data, metric (%) | minutes, of CPU | trials | fraction of the data | held-out data | test data"
    lines = [f"| {heads} |", "|---" * 7 + "|"]

    def gained(gain: dict[str, float] | None) -> str:
        if gain is None:
            return ""
        names = ("defaults", "tuned", "difference", "low", "high")
        defaults, tuned, difference, low, high = (100 * gain[name] for name in names)
        ratio = 100 * (gain["ratio"] - 1)
        return f"{defaults:.2f} to {tuned:.2f}: {difference:+.2f} ({low:+.2f} to {high:+.2f}), {ratio:+.1f} %"

    for row in rows:
        fraction = f"{100 * row['fraction']:.3g} %, at last {100 * row['final_fraction']:.3g} %"
        minutes = f"{row['minutes']:.0f}, {row['cpu_minutes']:.0f}"
        trials = f"{sum(row['trials'].values())}, {row['trials'].get('pruned', 0)} pruned"
        about = [row["model"], f"{row['data']}, {label(row['metric'])}", minutes, trials, fraction]
        outcome = " (defaults kept)" if row["kept"] else ""
        lines.append(f"| {' | '.join([*about, gained(row['held_out']) + outcome, gained(row['test'])])} |")
    return "\n".join([*lines, "", *map(source, rows)])


SECTIONS: dict[str, Callable[[], str]] = {
    "rules": rules,
    "figures": hidan,
    "sources": sources,
    "speed": speed,
    "answers": answers,
    "gpu": gpu,
    "exports": exports,
    "queries": queries,
    "suggestions": suggestions,
    "newcomers": newcomers,
    "reviews": reviews,
    "links": links,
    "learned_temperature": learned_temperature,
    "linking": linking,
    "linking_at_size": linking_at_size,
    "texts": texts,
    "peers": peers,
    "sasrec": sasrec,
    "comparison": comparison,
    "defaults": defaults,
    "growth": growth,
    "poolings": poolings,
    "token_rank": token_rank,
    "label_sets": label_sets,
    "stream": stream,
    "tuning": tuning,
}
