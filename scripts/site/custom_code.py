"""Measured ratios of custom code against libraries, from the files of ``benchmarks/results``."""

from __future__ import annotations

from scripts.site.tables import load, source


def table() -> str:
    """Return one row per part: the library, what was measured, the ratio, and why the part is custom."""
    reading, prepare, normalisers = (
        load(f"benchmarks/results/{name}.json") for name in ("reading", "prepare", "normalisers")
    )
    epoch, sessions, suggestions = (
        load(f"benchmarks/results/{name}.json") for name in ("epoch", "sessions", "suggestions")
    )
    distributed, sparse = (load(f"benchmarks/results/{name}.json") for name in ("distributed", "sparse"))
    rows = []
    for row in reading["rows"]:
        if not row["reader"].startswith("ensue"):
            reason = "groups events by session, maps ids to integers and names the line of a bad row"
            rows.append(("`data`: read a CSV log", row["reader"], "CPU time", row["ensue_over_it"], reason))
    first = {row["step"]: row for row in prepare["runs"][0]["rows"]}
    ours = first["ensue prepare"]
    peer = first["polars"]
    reason = "logs larger than memory, grouped and sorted; the same bytes for any number of chunks"
    rows.append(("`data`: prepare a log on disk", "polars", "CPU time", ours["over_polars"], reason))
    rows.append(
        (
            "`data`: prepare a log on disk",
            "polars",
            "memory",
            round(ours["peak_megabytes"] / peer["peak_megabytes"], 2),
            reason,
        )
    )
    for row in normalisers["tables"]["entmax"]:
        if row["alpha"] == "learned" and row["shape"] != "ring, copied":
            shape = " x ".join(map(str, row["size"]))
            reason = "a gradient for alpha, without a loop of 50 bisection steps"
            rows.append(
                (
                    f"`nn`: alpha-entmax, {shape}",
                    "entmax, 50 steps of bisection",
                    "time",
                    round(1 / row["times_faster"], 3),
                    reason,
                )
            )
    for row in epoch["rows"]:
        if row["model"] == "lstm, step by step":
            rows.append(
                (
                    f"`tasks.next`: HiDAN, {row['users']:,} users",
                    "LSTM of the paper, step by step",
                    "time per epoch",
                    row["hidan_over_it"],
                    "all steps of a cascade in one pass",
                )
            )
    for row in sessions["rows"]:
        if not row["model"].startswith("sansr"):
            rows.append(
                (
                    f"`tasks.next`: SANSR, {row['items']:,} items",
                    row["model"],
                    "time per epoch",
                    row["sansr_over_it"],
                    "one training loop for every task, sampled and full softmax",
                )
            )
    for row in suggestions["tables"]["throughput"]:
        if row["model"].startswith("transformers"):
            rows.append(
                (
                    "`tasks.suggest`: beam search",
                    row["model"],
                    "time",
                    round(1 / row["ours_over_it"], 2),
                    "copies typed words, applies the k-anonymity threshold during the search",
                )
            )
    for row in sparse["rows"]:
        if row["product"] in (
            "a text, 6 labels",
            "texts, 6 labels",
            "texts, 6 labels, transposed",
            "histories, by a sparse matrix",
        ):
            reason = "SciPy is 143 MB of an installation"
            rows.append((f"`text`: sparse product, {row['product']}", "SciPy", "CPU time", row["over_scipy"], reason))
    reason = "exchanges only the rows of a table that a step changed"
    rows.append(("`training`: two ranks", "one process", "time per epoch", distributed["two_over_one"], reason))
    lines = ["| part | compared with | measured | ratio | why it is custom |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    created = (reading, prepare["runs"][0], normalisers, epoch, sessions, suggestions, distributed, sparse)
    return "\n".join([*lines, "", *(f"- {source(result)}" for result in created)])
