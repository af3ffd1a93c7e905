"""The result of an evaluation: rows of metrics with intervals, the card that says what they mean, and paired tests.

It is shown as a frame, Markdown, LaTeX, HTML in notebooks, and in the model card ``CARD.md``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ensue.evaluation.bootstrap import BootstrapResult, PairedTest, Verdict, verdicts
from ensue.evaluation.examples import Json, PerExample
from ensue.metrics import UNBOUNDED, label

CHOSEN_ON_TEST_DATA = "the best are chosen on this test data"
"""End of a verdict between models or baselines of which the best was chosen by its metric on the test data."""
RARE = 0.5
"""Fraction of an equal share of the texts below which a label is rare."""
LISTED = 12
"""Maximum number of labels that a sentence lists."""
ERRORS = ("calibration_error", "log_loss")
"""Metrics of which the lowest is best."""
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_CAPTION = ("data", "targets", "unknown", "candidates", "repeats", "averaging", "ties", "interval", "leaked")
"""The lines of a card that a caption repeats."""


@dataclass(frozen=True, slots=True)
class Row:
    """The metrics of one model, as fractions, with 95 % intervals by metric; means over its seeds.

    Attributes:
        model: its name.
        figures: metrics by name.
        interval: the 95 % interval of each.
        seconds_per_1000: seconds per 1,000 predictions.
        notes: more of the task, by name.
        warning: a sentence where the metrics are not above those of a random order (of texts: of always predicting the
            most frequent label).
    """

    model: str
    figures: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]]
    seconds_per_1000: float | None = None
    notes: Json = field(default_factory=dict)
    warning: str = ""

    @property
    def title(self) -> str:
        """The name of the model, as tables show it."""
        return f"{self.model} (at chance level)" if self.warning else self.model

    def cell(self, name: str, between: str = " ± ") -> str:
        """Return a metric with the half-width of its interval."""
        low, high = self.interval[name]
        return f"{figure(self.figures[name], name)}{between}{figure((high - low) / 2, name)}"

    def to_dict(self) -> Json:
        """Return the flat JSON form: ``{"model", "mrr", …, "interval": {…}}``; ``"at_chance_level": true``."""
        level = {"at_chance_level": True} if self.warning else {}
        speed = {} if self.seconds_per_1000 is None else {"seconds_per_1000": self.seconds_per_1000}
        return {"model": self.model, **self.figures, "interval": dict(self.interval), **speed, **self.notes, **level}


@dataclass(frozen=True, slots=True)
class Result:
    """A table of metrics, its card, and whether a model or a baseline is better.

    Attributes:
        task: that was scored.
        card: what the metrics mean, by name.
        rows: one per model.
        paired_tests: the best model against the best baseline, by each metric of the verdict.
        table_metrics: the metrics that a table shows.
        bootstrap: the metrics of each row on the same resampled data.
        leaks: sentences on how answers may have leaked.
        examples: what each model made of each example.
        prices: sentences on the hit rates of re-ranked lists.
    """

    task: str
    card: Mapping[str, str]
    rows: tuple[Row, ...]
    paired_tests: tuple[PairedTest, ...]
    table_metrics: tuple[str, ...] = ()
    bootstrap: tuple[BootstrapResult, ...] = field(default=(), repr=False, compare=False)
    leaks: tuple[str, ...] = ()
    examples: PerExample | None = field(default=None, repr=False, compare=False)
    prices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return two lines: the protocol and the verdict."""
        return f"{type(self).__name__}({self.card['name']}: {len(self.rows)} rows)\n{self.verdict}"

    @property
    def model(self) -> str | None:
        """The best model by the first metric of the verdict; ``None`` where only baselines were scored."""
        return self.paired_tests[0].model

    @property
    def best_baseline(self) -> str:
        """The best baseline by the first metric of the verdict."""
        return self.paired_tests[0].baseline

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the first paired test."""
        return self.paired_tests[0].p_value

    @property
    def winner(self) -> str | None:
        """The model or baseline that is significantly better by the first paired test; ``None`` where neither is."""
        return self.paired_tests[0].winner

    @property
    def beats_baselines(self) -> bool:
        """True where a model that is not a baseline is significantly better by the first paired test."""
        return self.winner is not None and self.winner == self.model

    @property
    def verdict(self) -> str:
        """The line under the table."""
        is_chosen = any(test.is_chosen_on_test_data for test in self.paired_tests)
        sentences = [
            *(test.sentence for test in self.paired_tests),
            *([CHOSEN_ON_TEST_DATA] if is_chosen else []),
            *self._rare_labels(),
            *self.prices,
        ]
        return "; ".join(sentences)

    def _rare_labels(self) -> list[str]:
        """Return a sentence on the recall of rare labels, if the rows have metrics by label."""
        labels = self.rows[0].notes.get("labels", {})
        texts = {label: values["texts"] for label, values in labels.items() if values["texts"]}
        # A label is rare if it has fewer texts than a fraction of the mean per label.
        limit = RARE * sum(texts.values()) / max(len(texts), 1)
        rare = sorted((label for label in texts if texts[label] < limit), key=texts.__getitem__)
        if not rare:
            return []
        listed = ", ".join(f"{label} {texts[label]:,}" for label in rare[:LISTED]) + ", …" * (len(rare) > LISTED)
        recalls = []
        for row in self.rows:
            if row.model in (self.model, self.best_baseline):
                recall = np.mean([row.notes["labels"][label]["recall"] for label in rare])
                recalls.append(f"{row.model} {100 * recall:.2f}")
        return [f"mean recall of rare labels ({listed}): {', '.join(recalls)}"]

    def verdicts(self, measure: str = "") -> tuple[Verdict, ...]:
        """Return a paired test of each pair of rows on the same resampled data, Holm-corrected over all pairs.

        Args:
            measure: name of a metric. [default: the first of the verdict]
        """
        names = [row.model for row in self.rows]
        return verdicts(names, self.bootstrap, measure or self.paired_tests[0].measure)

    @property
    def caption(self) -> str:
        """The protocol in words: what the metrics mean."""
        scale = "metrics in %" + (" (log loss in nats)" if {*self.table_metrics} & {*UNBOUNDED} else "")
        lines = "; ".join(f"{name}: {self.card[name]}" for name in _CAPTION if self.card.get(name))
        return f"Protocol {self.card['name']}, {scale} ± half of the 95 % interval. {lines[:1].upper()}{lines[1:]}."

    def to_frame(self, measures: Sequence[str] = ()) -> pl.DataFrame:
        """Return one row per model: metrics as fractions, their 95 % intervals in ``NAME_low`` and ``NAME_high``."""
        rows = []
        for row in self.rows:
            values: dict[str, object] = {"model": row.model}
            for name in measures or row.figures:
                low, high = row.interval[name]
                values |= {name: row.figures[name], f"{name}_low": low, f"{name}_high": high}
            rows.append(values | {"seconds_per_1000": row.seconds_per_1000, "at_chance_level": bool(row.warning)})
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_csv(self, measures: Sequence[str] = ()) -> str:
        """Return :meth:`to_frame` as CSV."""
        return self.to_frame(measures).write_csv()

    def to_markdown(self, measures: Sequence[str] = ()) -> str:
        """Return a table for Markdown, metrics x 100, and the protocol below it."""
        return f"{self.table(measures)}\n\n{self.caption}\n"

    def table(self, measures: Sequence[str] = ()) -> str:
        """Return a Markdown table of metrics in % with half of their interval, then warnings."""
        names = measures or self.table_metrics
        lines = [f"| model | {' | '.join(map(label, names))} |", "|---" * (1 + len(names)) + "|"]
        lines += [f"| {row.title} | {' | '.join(row.cell(name) for name in names)} |" for row in self.rows]
        return "\n".join([*lines, *(f"\nWarning: {row.warning}" for row in self.rows if row.warning)])

    def to_latex(self, measures: Sequence[str] = ()) -> str:
        """Return a table for LaTeX (``booktabs``): the best of a column in bold, the protocol in the caption."""
        names = measures or self.table_metrics
        lines = [r"\begin{table}", r"  \centering", rf"  \caption{{{escaped(self.caption)}}}"]
        lines += [rf"  \begin{{tabular}}{{l{'r' * len(names)}}}", r"    \toprule"]
        lines += [f"    {' & '.join(['Model', *(escaped(label(name)) for name in names)])} \\\\", r"    \midrule"]
        for row in self.rows:
            cells = [escaped(row.title)]
            for name in names:
                # LaTeX prints the sign in math mode, so the two numbers are set apart.
                value, half = row.cell(name, "±").split("±")
                bold = rf"\textbf{{{value}}}" if self._is_best(row, name) else value
                cells.append(rf"{bold} $\pm$ {half}")
            lines.append(f"    {' & '.join(cells)} \\\\")
        return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])

    def card_text(self) -> str:
        """Return the table, the verdict and the lines of the card as Markdown, for a model card."""
        lines = [*self.card.items(), *([("leaks", "; ".join(self.leaks))] if self.leaks else [])]
        return "\n".join([self.table(), "", self.verdict, "", *(f"- {name}: {line}" for name, line in lines)])

    def _repr_html_(self) -> str:
        """Return the table, its protocol and the verdict for a notebook; nothing is fetched, nothing runs."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("model", *map(label, self.table_metrics)))
        body = []
        for row in self.rows:
            cells = [f"<th>{html.escape(row.title)}</th>"]
            for name in self.table_metrics:
                text = row.cell(name)
                cells.append(f"<td><b>{text}</b></td>" if self._is_best(row, name) else f"<td>{text}</td>")
            body.append(f"<tr>{''.join(cells)}</tr>")
        heading = f"<table><caption>{html.escape(self.caption)}</caption><thead><tr>{head}</tr></thead>"
        return f"{heading}<tbody>{''.join(body)}</tbody></table><p>{html.escape(self.verdict)}</p>"

    def _is_best(self, row: Row, name: str) -> bool:
        """Return whether a metric is the best of its column, as it is shown."""
        best = (min if name in ERRORS else max)(other.figures[name] for other in self.rows)
        # Compare the rounded texts: values that look equal in the table are all marked as best.
        return figure(row.figures[name], name) == figure(best, name)

    def to_dict(self) -> Json:
        """Return the JSON object that ``evaluate --json`` and ``compare --json`` print."""
        return {
            "task": self.task,
            "protocol": dict(self.card),
            "rows": [row.to_dict() for row in self.rows],
            "paired_tests": [test.to_dict() for test in self.paired_tests],
            "best_baseline": self.best_baseline,
            "beats_baselines": self.beats_baselines,
            "winner": self.winner,
            "p_value": None if self.model is None else self.p_value,
            "verdict": self.verdict,
            **({"leaks": [*self.leaks]} if self.leaks else {}),
        }


def figure(value: float, name: str) -> str:
    """Return a metric as tables show it: x 100, unless it is not a fraction."""
    return f"{value:.3f}" if name in UNBOUNDED else f"{100 * value:.2f}"


def escaped(text: str) -> str:
    """Return text as LaTeX reads it."""
    # Characters that LaTeX reads as commands; one pass, so that no replacement is escaped again.
    return re.sub(r"[\\~^±&%$#_{}]", lambda match: _LATEX[match[0]], text)
