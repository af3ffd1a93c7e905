"""The ratios that defend what is written by hand, from the files of ``benchmarks/results``."""

from __future__ import annotations

from scripts.site.tables import load, source


def table() -> str:
    """A row a part: the peer, what was measured, ours over it, and why the part is ours."""
    reading, prepare, normalisers = (
        load(f"benchmarks/results/{name}.json") for name in ("reading", "prepare", "normalisers")
    )
    epoch, sessions, suggestions = (
        load(f"benchmarks/results/{name}.json") for name in ("epoch", "sessions", "suggestions")
    )
    distributed = load("benchmarks/results/distributed.json")
    rows = []
    for row in reading["rows"]:
        if row["reader"] != "ensue":
            why = "numbers ids while it reads, so text columns are never held whole"
            rows.append(("`data`: a CSV log to columns", row["reader"], "CPU time", row["ensue_over_it"], why))
    first = {row["step"]: row for row in prepare["runs"][0]["rows"]}
    own, peer = first["ensue prepare"], first["polars"]
    why = "a log larger than the memory, grouped by sequence and ordered, the same bytes whatever the number of parts"
    rows.append(("`data`: a log prepared on disk", "polars", "CPU time", own["over_polars"], why))
    rows.append(
        (
            "`data`: a log prepared on disk",
            "polars",
            "memory",
            round(own["peak_megabytes"] / peer["peak_megabytes"], 2),
            why,
        )
    )
    for row in normalisers["tables"]["entmax"]:
        if row["alpha"] == "learned" and row["shape"] != "ring, copied":
            shape = " x ".join(map(str, row["size"]))
            why = "a gradient in alpha, and no loop of fifty halvings"
            rows.append(
                (
                    f"`nn`: alpha-entmax, {shape}",
                    "entmax, 50 steps of bisection",
                    "time",
                    round(1 / row["times_faster"], 3),
                    why,
                )
            )
    for row in epoch["rows"]:
        if row["model"] == "lstm, step by step":
            rows.append(
                (
                    f"`tasks.next`: HiDAN, {row['users']:,} users",
                    "the paper's LSTM, step by step",
                    "time of an epoch",
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
                    "time of an epoch",
                    row["sansr_over_it"],
                    "one loop for every task, sampled and full softmax",
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
                    "copying of typed words, the privacy floor inside the search",
                )
            )
    why = "exchanges the touched rows of a table, not all of it"
    rows.append(("`training`: two ranks", "one process", "time of an epoch", distributed["two_over_one"], why))
    lines = ["| part | peer | measured | ours over it | why it is ours |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    made = (reading, prepare["runs"][0], normalisers, epoch, sessions, suggestions, distributed)
    return "\n".join([*lines, "", *(f"- {source(found)}" for found in made)])
