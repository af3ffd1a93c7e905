"""Drawings of protocols, of parts of an evaluation and of the packages, as SVG: dark on white, for either scheme."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterable
from html import escape
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "ensue"
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
INK, BLUE, ORANGE, GREY, PALE = "#1a1a1a", "#2f6f9f", "#b4540a", "#6b6b6b", "#e3e8ec"
WIDTH = 620


def _svg(height: int, label: str, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="14" role="img" aria-label="{escape(label)}"><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, colour: str = INK, anchor: str = "start", size: int = 14) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _box(x: float, y: float, text: str, fill: str = PALE, colour: str = INK, width: int = 62) -> str:
    box = f'<rect x="{x}" y="{y}" width="{width}" height="28" rx="4" fill="{fill}"/>'
    return box + _text(x + width / 2, y + 19, text, colour, "middle")


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = INK, width: float = 1.5, dash: str = "") -> str:
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="{width}"{style}/>'


def _row(y: float, names: Iterable[str], target: str = "", out: Iterable[str] = (), left: float = 150) -> list[str]:
    shapes = []
    for index, name in enumerate(names):
        x = left + 72 * index
        shapes.append(_box(x, y, name, BLUE if name == target else PALE, "#fff" if name == target else INK))
        if name in out:
            shapes.append(_line(x, y + 28, x + 62, y, ORANGE, 2.5))
    return shapes


def full() -> str:
    """Draw the protocol in which users of the cascade are left out."""
    shapes = [_text(10, 33, "events so far"), *_row(14, ["ann", "bob"])]
    shapes += [
        _text(10, 83, "ranked by the model"),
        *_row(64, ["bob", "eve", "ann", "dan", "cat", "…"], "dan", ["bob", "ann"]),
    ]
    shapes += [_text(10, 125, "dan shared it. ann and bob are left out, so dan has rank 2: 1 / rank is 0.50.")]
    shapes += [_text(10, 147, "Every target counts the same: MRR is the mean of 1 / rank over all of them.", GREY)]
    return _svg(160, "Protocol full: all users are ranked, except those already in the cascade", shapes)


def macro() -> str:
    """Draw the mean over each cascade, then over cascades."""
    shapes = [_text(10, 33, "a long cascade"), *_row(14, ["1", "1/2", "1/2", "1/4", "1/4", "0.50"], "0.50")]
    shapes += [_text(10, 83, "a short one"), *_row(64, ["1/10", "0.10"], "0.10")]
    shapes += [_text(10, 125, "First a mean over each cascade (blue), then over cascades: (0.50 + 0.10) / 2 = 0.30.")]
    shapes += [
        _text(10, 147, "A micro average, over the six targets at once, would be 0.43. Nobody is left out.", GREY)
    ]
    return _svg(160, "Protocol macro: the mean over each cascade, then the mean over cascades", shapes)


def sampled() -> str:
    """Draw a target among a hundred random candidates."""
    shapes = [_text(10, 33, "all 43,097 items")]
    shapes += [
        f'<rect x="{150 + 11 * n}" y="16" width="8" height="26" fill="{ORANGE if n in (4, 13, 22, 31) else PALE}"/>'
        for n in range(41)
    ]
    shapes += [
        _line(302, 46, 302, 66, GREY),
        _text(10, 91, "100 drawn, and the target"),
        *_row(72, ["x", "y", "target", "z", "…"], "target", left=190),
    ]
    shapes += [_text(10, 133, "Among 101, a random order has the target in the first 20 in 20 of 101 cases.")]
    shapes += [_text(10, 155, "Such metrics are high for any model, and can put models in the wrong order.", GREY)]
    return _svg(168, "Protocol sampled: the target is ranked among a hundred items drawn at random", shapes)


def ties() -> str:
    """Draw how equal scores count."""
    shapes = [_text(10, 33, "user"), *_row(14, ["eve", "dan", "cat", "fay"], "dan")]
    shapes += [
        _text(10, 73, "score"),
        *[_text(181 + 72 * n, 73, score, INK, "middle") for n, score in enumerate(["0.9", "0.4", "0.4", "0.1"])],
    ]
    shapes += [_text(10, 110, "dan and cat have the same score. dan's rank is 3, not 2: a model that gives everybody")]
    shapes += [_text(10, 130, "the same score gains nothing.")]
    return _svg(145, "Ties count against the target", shapes)


def interval() -> str:
    """Draw the metrics of a thousand resamples."""
    heights = [2, 5, 9, 16, 26, 38, 49, 56, 58, 52, 43, 31, 20, 12, 7, 3, 1]
    shapes = [
        f'<rect x="{120 + 22 * n}" y="{90 - high}" width="20" height="{high}" fill="{BLUE if 2 <= n <= 14 else PALE}"/>'
        for n, high in enumerate(heights)
    ]
    shapes += [_line(110, 90, 505, 90), _line(164, 100, 450, 100, ORANGE, 3), _text(164, 120, "20.1", INK, "middle")]
    shapes += [_text(450, 120, "24.3", INK, "middle"), _text(307, 120, "22.2 ± 2.1", INK, "middle")]
    shapes += [_text(10, 150, "Whole sessions are resampled 1,000 times. The middle 95 % of the metrics is the")]
    shapes += [
        _text(
            10,
            170,
            "interval; ± is half of it. Events of one session are correlated, so they stay together.",
        )
    ]
    return _svg(184, "A confidence interval: the middle 95 % of a thousand resampled metrics", shapes)


def verdict() -> str:
    """Draw the difference of two models on the same resampled data."""
    shapes = [_line(310, 14, 310, 128, GREY, 1, "4 4"), _text(310, 146, "no difference", GREY, "middle", 12)]
    rows = (
        ("significant: the model is better", 340, 520, BLUE),
        ("not significant", 270, 390, GREY),
        ("significant: the baseline is better", 130, 285, ORANGE),
    )
    for index, (label, low, high, colour) in enumerate(rows):
        y = 28 + 38 * index
        middle = (low + high) / 2
        shapes += [_line(low, y, high, y, colour, 3), f'<circle cx="{middle}" cy="{y}" r="5" fill="{colour}"/>']
        shapes.append(_text(10, y - 8, label, INK, size=13))
    shapes += [
        _text(10, 172, "Both models are scored on the same resampled sessions, and the difference is taken each time.")
    ]
    shapes += [_text(10, 192, "Significant is p < .05, two-sided. Several comparisons: Holm's correction.", GREY)]
    return _svg(205, "Significance: the interval of the difference is above, around or below zero", shapes)


def leak() -> str:
    """Draw training data before test data, and a copy in both."""
    shapes = [_line(20, 60, 600, 60), _text(585, 50, "time", GREY, "end", 12)]
    shapes += [
        _box(30, 70, "training", BLUE, "#fff", 320),
        _box(360, 70, "validation", PALE, INK, 100),
        _box(470, 70, "test", ORANGE, "#fff", 120),
    ]
    shapes += [
        _text(30, 36, "the same session …"),
        _text(470, 36, "… and here again"),
        _line(160, 40, 160, 68, GREY, 1, "3 3"),
        _line(520, 40, 520, 68, GREY, 1, "3 3"),
    ]
    shapes += [
        _text(
            10, 130, "The newest part is for testing only. Sessions that are in the training data and in the test data"
        )
    ]
    shapes += [_text(10, 150, "are counted as leaked: a model that memorises them looks better than it is.")]
    return _svg(164, "Time split: train on the past, test on the newest part; copies are counted as leaked", shapes)


def deletion() -> str:
    """Draw the score without the largest weights, next to the score without random events."""
    shapes = [
        _text(10, 33, "all events"),
        f'<rect x="230" y="16" width="340" height="24" fill="{BLUE}"/>',
        _text(236, 33, "0.68", "#fff"),
    ]
    shapes += [
        _text(10, 73, "without the largest weights"),
        f'<rect x="230" y="56" width="185" height="24" fill="{ORANGE}"/>',
        _text(236, 73, "0.37", "#fff"),
    ]
    shapes += [
        _text(10, 113, "without random events"),
        f'<rect x="230" y="96" width="327" height="24" fill="{GREY}"/>',
        _text(236, 113, "0.65", "#fff"),
    ]
    shapes += [_text(10, 150, "A weight is not a cause. If the score falls no further than without random events,")]
    shapes += [_text(10, 170, "the weights say little about this answer.")]
    return _svg(184, "The deletion test: change of the score without the events with the largest weights", shapes)


def calibration() -> str:
    """Draw predicted probabilities against observed accuracy."""
    shapes = [_line(230, 20, 230, 190), _line(230, 190, 400, 190), _line(230, 190, 400, 20, GREY, 1, "4 4")]
    bins = ((250, 176, 20), (285, 150, 12), (320, 122, 18), (355, 92, 27), (390, 64, 34))
    for x, y, off in bins:
        shapes += [
            f'<circle cx="{x - 10}" cy="{y}" r="5" fill="{BLUE}"/>',
            _line(x - 10, y, x - 10, y - off, ORANGE, 2),
        ]
    shapes += [
        _text(222, 30, "accuracy", INK, "end"),
        _text(400, 208, "predicted", INK, "end"),
        _text(410, 60, "the orange gaps, weighted by their"),
    ]
    shapes += [_text(410, 80, "number of texts: calibration error")]
    shapes += [_text(10, 236, "Of the texts with a predicted probability of 80 %, four in five should be right.")]
    return _svg(250, "Calibration: accuracy against predicted probability", shapes)


def pool() -> str:
    """Draw one ranking per post, and all pairs in one list."""
    shapes = [
        _text(10, 33, "for a post"),
        *_row(14, ["ferry", "bridge", "school"], "bridge"),
        _text(380, 33, "rank 2: 1 / rank 0.50", GREY),
    ]
    shapes += [
        _text(10, 83, "in one pool"),
        *[
            _box(150 + 92 * n, 64, name, BLUE if good else PALE, "#fff" if good else INK, 86)
            for n, (name, good) in enumerate(
                (("p7·ferry", True), ("p2·bridge", True), ("p9·ferry", False), ("p4·school", True), ("…", False))
            )
        ],
    ]
    shapes += [
        _text(10, 125, "MRR and recall@10 rank articles for each post. Pooled AP, mRP and AUC rank all pairs of post")
    ]
    shapes += [_text(10, 145, "and article in one list: scores must be comparable between posts.")]
    return _svg(160, "Link: one ranking per post, and all pairs in one list", shapes)


def words() -> str:
    """Draw the words that the first suggestion shares with the next query."""
    shapes = [
        _text(10, 33, "suggested"),
        *[
            _box(150 + 100 * n, 14, word, BLUE if hit else PALE, "#fff" if hit else INK, 92)
            for n, (word, hit) in enumerate((("night", True), ("ferry", True), ("prices", False)))
        ],
    ]
    shapes += [
        _text(10, 83, "typed next"),
        *[_box(150 + 100 * n, 64, word, PALE, INK, 92) for n, word in enumerate(("night", "ferry", "times"))],
    ]
    shapes += [
        _text(
            10, 125, "BLEU counts shared words and n-grams: two of three here. MRR@10 and recall@10 use the rank of the"
        )
    ]
    shapes += [_text(10, 145, "query that was typed, among ten: a suggestion that is nearly right counts nothing.")]
    return _svg(160, "Suggest: words shared with the next query, and its rank among ten", shapes)


def growth() -> str:
    """Draw the CPU seconds of fit and evaluate against the events of a log, both as logarithms."""
    result = json.loads((RESULTS / "growth.json").read_text("utf-8"))
    lines = [
        (model, step, [(row["events"], row[step]) for row in result["rows"] if row["model"] == model], exponents[step])
        for model, exponents in result["exponents"].items()
        for step in ("fit", "evaluate")
    ]
    points = [point for *_, line, _ in lines for point in line]
    (x_low, x_high), (low, high) = (
        (math.log10(min(values)), math.log10(max(values))) for values in zip(*points, strict=True)
    )

    def place(events: float, seconds: float) -> tuple[float, float]:
        """Return where a point is drawn: the left and the lower edge hold the smallest of all points."""
        x = 60 + 330 * (math.log10(events) - x_low) / (x_high - x_low)
        return round(x, 1), round(230 - 190 * (math.log10(seconds) - low) / (high - low), 1)

    shapes = [_line(60, 240, 400, 240), _line(60, 240, 60, 30), _text(60, 20, "CPU seconds")]
    for events in sorted({point[0] for point in points}):
        x, _ = place(events, 10**low)
        shapes += [_line(x, 240, x, 245), _text(x, 262, f"{events:,}", GREY, "middle", 12)]
    for seconds in (10**low, 10**high):
        _, y = place(10**x_low, seconds)
        shapes += [_line(55, y, 60, y), _text(50, y + 4, f"{seconds:.2g}", GREY, "end", 12)]
    for number, (model, step, line, exponent) in enumerate(lines):
        colour = (BLUE, ORANGE)[number // 2 % 2]
        dash = "5 3" if step == "evaluate" else ""
        locations = [place(*point) for point in line]
        shapes += [_line(*start, *end, colour, 2, dash) for start, end in pairwise(locations)]
        shapes += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in locations]
        y = 60 + 26 * number
        shapes += [
            _line(425, y - 5, 450, y - 5, colour, 2, dash),
            _text(458, y, f"{model}, {step}: {exponent}", size=13),
        ]
    shapes += [_text(425, 36, "exponent", GREY), _text(400, 284, "events", anchor="end")]
    return _svg(295, "CPU seconds of fit and evaluate against the events of a log", shapes)


def package_imports() -> dict[str, set[str]]:
    """Return what each package and each module beside them imports, the name of the package alone for its own parts."""
    imported: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).with_suffix("").parts[0]
        targets = imported.setdefault(package, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ensue."):
                targets.add(str(node.module).split(".")[1])
            elif isinstance(node, ast.ImportFrom) and node.module == "ensue":
                targets.update(alias.name for alias in node.names)
        targets.discard(package)
    return imported


def packages() -> str:
    """Draw which package imports which, read from the source: no dot is above the diagonal."""
    imported = package_imports()
    listed = [name for name in imported if (SOURCE / name).is_dir()]
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = 1 + max((depth(other) for other in imported[name] if other in listed), default=0)
        return depths[name]

    order = sorted(listed, key=lambda name: (depth(name), name))
    left_edge = 110
    top = 92
    step = 24
    shapes = [_text(left_edge - 8, top - 70, "imports", GREY, "end", 12)]
    for row, name in enumerate(order):
        y = top + step * row
        shapes.append(_text(left_edge - 8, y + 4, name, INK, "end", 13))
        x = left_edge + 12 + step * row
        shapes.append(
            f'<text transform="translate({x + 4} {top - 18}) rotate(-60)" fill="{INK}" font-size="13">{name}</text>'
        )
        shapes.append(_line(left_edge, y + 12, left_edge + step * len(order), y + 12, PALE, 1))
        for column, other in enumerate(order):
            centre = left_edge + 12 + step * column
            if other == name:
                shapes.append(f'<rect x="{centre - 4}" y="{y - 4}" width="8" height="8" fill="{PALE}"/>')
            elif other in imported[name]:
                shapes.append(f'<circle cx="{centre}" cy="{y}" r="5" fill="{BLUE}"/>')
    return _svg(
        top + step * len(order), "A row imports the packages with a dot; none imports one further right", shapes
    )


DRAWINGS: dict[str, Callable[[], str]] = {
    "packages": packages,
    "growth": growth,
    "full": full,
    "macro": macro,
    "sampled": sampled,
    "ties": ties,
    "interval": interval,
    "verdict": verdict,
    "leak": leak,
    "deletion": deletion,
    "calibration": calibration,
    "pool": pool,
    "words": words,
}
