// How right each model was on days it had not seen: beside it counting, and one who knows the truth.

import { make } from "./dom.js";

const NAMES = { mrr: "MRR", "mrr@10": "MRR@10", accuracy: "accuracy" };

export function scores(section, story) {
  const rows = story.rows.map((row) =>
    make("tr", {},
      make("th", { scope: "row" }, row.question, make("span", { class: "by" }, `${NAMES[row.measure] || row.measure}, ${row.asked.toLocaleString("en")} asked`)),
      make("td", {}, make("span", { class: "figure strong" }, `${(100 * row.score).toFixed(1)}`), ` ± ${(100 * row.half).toFixed(1)}`, make("span", { class: "by" }, row.model)),
      make("td", {}, make("span", { class: "figure" }, (100 * row.counted).toFixed(1)), make("span", { class: "by" }, row.counting)),
      make("td", {}, make("span", { class: "figure" }, (100 * row.truth).toFixed(1))),
      make("td", { class: "strip-cell", "aria-hidden": "true" }, strip(row))));
  const heads = ["Question", "Model", "Counting", "Truth"].map((name) => make("th", { scope: "col" }, name));
  section.replaceChildren(
    make("h2", { id: "scores-title" }, "How right are they?"),
    make("p", { class: "lead small" }, "Asked about the last two days, which no model has seen. Beside each model stands the best of plain counting, and what one would score who knew the chances that this event was drawn with: nobody can be expected to do better. Figures × 100, ± 95 %."),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "scores-title" },
      make("table", {}, make("thead", {}, make("tr", {}, heads, make("th", { class: "strip-cell", "aria-hidden": "true" }, legend()))), make("tbody", {}, rows))),
    make("ul", { class: "notes" }, story.notes.slice(1).map((line) => make("li", {}, `HiDAN's strongest weight ${line.trim().replace(/\s+/g, " ")}`))));
  section.hidden = false;
}

function strip(row) {
  const line = make("span", { class: "strip" });
  const place = (kind, share) => { const mark = make("i", { class: kind }); mark.style.left = `${100 * share}%`; return mark; };
  const range = make("i", { class: "range" });
  range.style.left = `${100 * Math.max(0, row.score - row.half)}%`;
  range.style.width = `${200 * row.half}%`;
  line.append(range, place("truth", row.truth), place("counting", row.counted), place("model", row.score));
  return line;
}

function legend() {
  return make("span", { class: "legend" }, [["model", "model"], ["counting", "counting"], ["truth", "truth"]].map(([kind, text]) => make("span", {}, make("i", { class: kind }), text)));
}
