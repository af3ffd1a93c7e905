// Metrics of every model on the test days, with the best baseline and the ceiling.

import { make } from "./dom.js";

export const METRICS = { mrr: "MRR", "mrr@10": "MRR@10", accuracy: "accuracy" };

export function scores(section, story) {
  const rows = story.rows.map((row) =>
    make("tr", {},
      make("th", { scope: "row" }, row.question, make("span", { class: "by" }, `${METRICS[row.metric] || row.metric}, ${row.num_questions.toLocaleString("en")} questions`)),
      make("td", {}, make("span", { class: "figure strong" }, `${(100 * row.score).toFixed(1)}`), ` ± ${(100 * row.half_width).toFixed(1)}`, make("span", { class: "by" }, row.model)),
      make("td", {}, make("span", { class: "figure" }, (100 * row.baseline_score).toFixed(1)), make("span", { class: "by" }, row.baseline)),
      make("td", {}, make("span", { class: "figure" }, (100 * row.ceiling).toFixed(1))),
      make("td", { class: "strip-cell", "aria-hidden": "true" }, strip(row))));
  const heads = ["Question", "Model", "Best baseline", "Ceiling"].map((name) => make("th", { scope: "col" }, name));
  section.replaceChildren(
    make("h2", { id: "scores-title" }, "Metrics on the last two days"),
    make("p", { class: "lead small" }, "No model has seen the last two days. Each model is compared with the best baseline and with the ceiling: the score of the true probabilities that this event was drawn from. Metrics in %, with half of the 95 % interval; the scale of the bars is 0 to 100 %."),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "scores-title" },
      make("table", {}, make("thead", {}, make("tr", {}, heads, make("th", { class: "strip-cell", "aria-hidden": "true" }, legend()))), make("tbody", {}, rows))),
    make("ul", { class: "notes" }, story.notes.slice(1).map((line) => make("li", {}, `Largest attention weight of HiDAN: ${line.trim()}`))));
  section.hidden = false;
}

function strip(row) {
  const line = make("span", { class: "strip" });
  const place = (kind, share) => { const mark = make("i", { class: kind }); mark.style.left = `${100 * share}%`; return mark; };
  const range = make("i", { class: "range" });
  range.style.left = `${100 * Math.max(0, row.score - row.half_width)}%`;
  range.style.width = `${200 * row.half_width}%`;
  line.append(range, place("ceiling", row.ceiling), place("baseline", row.baseline_score), place("model", row.score));
  return line;
}

function legend() {
  return make("span", { class: "legend" }, [["model", "model"], ["baseline", "baseline"], ["ceiling", "ceiling"]].map(([kind, text]) => make("span", {}, make("i", { class: kind }), text)));
}
