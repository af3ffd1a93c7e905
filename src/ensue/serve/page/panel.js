// One question: inputs on one side, ranked answers and their evidence on the other.

import * as api from "./api.js";
import { deletions, outcome, ranked, remark } from "./answers.js";
import { picks, texts, trail } from "./asking.js";
import { later, make, percent, problem, unique, waiting } from "./dom.js";
import { draw, erase } from "./figure.js";
import { plural } from "./kinds.js";
import { METRICS } from "./scores.js";

const K = 5;

export function panel(kind, models, story) {
  const own = story ? story.panels : {};
  const scenes = own[kind.part || models.find((model) => own[model.name])?.name];
  const held = story ? null : models[0].held_out;
  const items = scenes || (held ? held.held_out.map((one) => ({ ...one, held: true })) : story ? [] : (models[0].examples || []).map((record) => ({ record })));
  const view = { kind, models, story, items, model: models[0], question: null, answer: null, turn: 0, look: null };
  const titles = new Map((story?.articles || []).map((article) => [article.id, article.title]));
  view.name = (value) => titles.get(value) || value;
  view.answers = make("div", { class: "answers", "aria-live": "polite", "aria-busy": "false" });
  view.evidence = make("div", { class: "evidence" });
  view.subject = make("div", { class: "subject" });
  view.facts = make("div", { class: "facts" });
  if (!story) about(view);
  const left = make("div", { class: "asking" }, models.length > 1 ? selector(view) : null, story ? null : view.facts);
  const right = make("div", { class: "answering" }, make("h2", {}, kind.question), result(story, kind, models), view.subject, view.answers, view.evidence);
  view.section = make("section", { class: "panel", role: "tabpanel", id: `panel-${kind.key}`, "aria-labelledby": `tab-${kind.key}`, tabindex: "0" }, left, right);
  const legend = scenes ? kind.pick : held ? "Held-out examples" : "Examples";
  const describe = (item) => (scenes ? kind.card(item, view.name) : held ? [brief(item.record), length(item.record, kind)] : [shown(item.record), kind.example || `a ${kind.unit[0]}`]);
  const pick = items.length ? picks(legend, items, describe, (item) => choose(view, item)) : null;
  if (pick) left.append(pick.field);
  if (scenes) pick.field.append(make("p", { class: "note" }, "The first is one that the model answers correctly; the others are spread over the two days."));
  if (held?.learned) pick.field.append(make("p", { class: "note" }, "These examples validated the model and were then used for training, so right answers here prove little. The score is from other data."));
  if (kind.form === "text") withText(view, left, pick);
  else withTrail(view, left, pick);
  if (!items.length) left.classList.add("alone");
  let begun = false;
  const open = () => {
    if (begun) return;
    begun = true;
    if (pick) pick.first();
    else rest(view);
  };
  return { key: kind.key, name: kind.name, panel: view.section, open };
}

// One line: the metric of the panel's model on the test days, with the best baseline and the ceiling.
function result(story, kind, models) {
  const row = story?.rows.find((row) => row.name === kind.part || models.some((model) => model.name === row.name));
  if (!row) return null;
  const figure = (share) => (100 * share).toFixed(1);
  return make("p", { class: "note result" }, `${METRICS[row.metric] || row.metric} on ${row.num_questions.toLocaleString("en")} questions of the last two days, in %: `
    + `${row.model} ${figure(row.score)} ± ${figure(row.half_width)}, best baseline (${row.baseline}) ${figure(row.baseline_score)}, ceiling ${figure(row.ceiling)}.`);
}

// The latest of a history, and how long it is.
const brief = (record) => (record.values?.length > 3 ? `… ${record.values.slice(-3).join(" · ")}` : shown(record));
const length = (record, kind) => (record.values ? plural(record.values.length, ...kind.unit) : "a text");

const shown = (record) => record.text || (record.texts || record.values).join(" · ");

// Verdicts by which no network is significantly better than the best baseline.
const NOT_AHEAD = /only baselines|do not differ significantly|baselines?\) is significantly better/;

// Name and version of a model, the day it was trained, and its metrics on test data.
function about(view) {
  const { name, task, model, version, trained, scores, drift } = view.model;
  const rows = [["Name", name], ["Task", task], ["Model", model], ["Version", version], ["Trained", trained || "unknown"]];
  if (scores) {
    rows.push(["Score", Object.entries(scores.figures).slice(0, 3).map(([measure, figure]) => `${measure.replaceAll("_", " ")} ${figure}`).join("; ")]);
    rows.push(["Protocol", ["name", "data"].map((key) => scores.protocol[key]).filter(Boolean).join("; ") || "see CARD.md"]);
  } else rows.push(["Score", "not evaluated yet; run: ensue evaluate FOLDER TEST"]);
  rows.push(["Drift", drift
    ? `${percent(drift.unknown)} of ${drift.events.toLocaleString("en")} ids and words in requests in ${drift.days} days were unknown to it`
    : "no requests in 7 days"]);
  const notAhead = NOT_AHEAD.test(scores?.verdict || "");
  view.facts.replaceChildren(
    make("h3", {}, "The model"),
    make("dl", {}, rows.map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, String(text))))),
    notAhead ? make("p", { class: "warning" }, "No network is significantly better than the best baseline on this data.") : "",
    scores?.verdict ? make("p", { class: "note" }, scores.verdict) : "");
}

function selector(view) {
  const id = unique("model");
  const select = make("select", { id }, view.models.map((model, at) => make("option", { value: String(at) }, `${model.name} (${model.model})`)));
  select.addEventListener("change", () => {
    view.model = view.models[Number(select.value)];
    if (!view.story) about(view);
    if (view.question) ask(view, view.question);
  });
  return make("div", { class: "selector" }, make("label", { for: id }, "Model"), select);
}

function withText(view, left, pick) {
  const paired = Boolean(view.model.paired);
  const form = texts(view.kind, paired, (written) => {
    if (pick) pick.clear();
    const record = paired ? { texts: written } : view.kind.record(written[0]);
    quote(view, written.join("\n"), "your own");
    ask(view, { record });
  });
  const open = !pick || matchMedia("(min-width: 821px)").matches;
  left.append(make("details", { class: "write", open }, make("summary", {}, view.kind.own), form));
}

function quote(view, text, by) {
  view.subject.replaceChildren(make("figure", { class: "post" }, make("blockquote", {}, text), make("figcaption", {}, by)));
}

function withTrail(view, left, pick) {
  const { kind, story } = view;
  const offered = !story ? [] : kind.part === "sharing" ? Object.keys(story.people) : kind.part === "reading" ? story.articles.map((one) => one.id) : [];
  const changed = (state) => {
    if (pick) pick.clear();
    follow({ values: state.values, times: state.times }, "");
  };
  const follow = (state, prefix) => {
    const record = state.times.length ? { values: state.values, times: state.times } : { values: state.values };
    if (!state.values.length && !prefix && !kind.typed) rest(view);
    else ask(view, { record: structuredClone(record), prefix, live: Boolean(prefix) });
  };
  const suggest = kind.typed ? later(110, (prefix) => {
    if (prefix !== view.steps.field.value) return; // entered, or another example picked, since the last letter
    if (pick) pick.clear();
    follow(view.steps.state, prefix);
  }) : null;
  view.steps = trail(kind, offered, view.name, changed, suggest);
  view.caption = make("div", { class: "caption" });
  view.subject.replaceChildren(view.caption, view.steps.box);
  if (suggest) view.steps.field.addEventListener("keydown", (event) => {
    const first = view.answers.querySelector("input");
    if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
  });
}

function choose(view, item) {
  if (view.steps) {
    view.steps.set(item.record.values, item.record.times || []);
    view.caption.replaceChildren(...(item.text ? [make("figure", { class: "post" }, make("blockquote", {}, item.text), make("figcaption", {}, `${item.who}, ${item.when}`))] : []));
  } else quote(view, shown(item.record), item.who ? `${item.who}, ${item.when}` : item.held ? "held out during training" : "an example");
  ask(view, item);
}

function rest(view) {
  view.turn += 1;
  view.question = null;
  view.answers.replaceChildren(make("p", { class: "state" }, view.steps ? `Add ${view.kind.unit[1]}, and the ranking follows.` : "Write a text and ask."));
  clear(view);
}

function clear(view) {
  for (const node of view.evidence.querySelectorAll(".plot")) erase(node);
  view.evidence.replaceChildren();
  view.evidence.setAttribute("aria-busy", "false");
}

async function ask(view, question) {
  const turn = (view.turn += 1);
  view.question = question;
  view.look?.abort();
  view.look = new AbortController();
  for (const part of [view.answers, view.evidence]) part.setAttribute("aria-busy", "true");
  if (!view.answers.querySelector(".ranked")) view.answers.replaceChildren(waiting("Asking the model…"));
  try {
    const prefix = view.kind.typed ? question.prefix || "" : undefined;
    const answer = await api.predict(view.model.name, question.record, K, prefix, view.look.signal);
    if (turn === view.turn) show(view, question, answer);
  } catch (error) {
    if (error.name === "AbortError" || turn !== view.turn) return;
    clear(view);
    view.answers.replaceChildren(problem(error, () => { view.answers.replaceChildren(); ask(view, question); }));
  } finally {
    if (turn === view.turn) view.answers.setAttribute("aria-busy", "false");
  }
}

function show(view, question, answer) {
  const { kind, name } = view;
  view.answer = answer;
  if (!answer.choices.length) {
    view.answers.replaceChildren(make("p", { class: "state" }, "No answer fits."), ...[remark(answer, kind)].filter(Boolean));
    clear(view);
    return;
  }
  const list = ranked(answer, kind, name, question.truth || [], (at) => inspect(view, question, answer, at));
  const notes = [outcome(answer, kind, name, question), remark(answer, kind)].filter(Boolean);
  view.answers.replaceChildren(list.field, ...notes);
  list.pick(0);
}

function inspect(view, ...rest) {
  view.evidence.setAttribute("aria-busy", "true");
  look(view, ...rest);
}

const look = later(60, async (view, question, answer, at) => {
  const turn = view.turn;
  const plot = make("div", { class: "plot", role: "img", "aria-label": view.kind.evidence }, waiting("Drawing…"));
  const words = make("p", { class: "words" });
  const test = make("section", { class: "test" }, make("h4", {}, view.kind.closest ? "Closest sentence of the article" : "Deletion test"), deletions(answer, at, view.kind, view.name));
  const drawing = make("section", { class: "drawing" }, make("h4", {}, view.kind.evidence), plot, words);
  view.looking = plot;
  const head = make("h3", {}, "Evidence for ", make("em", {}, view.name(answer.choices[at].value)));
  const height = view.evidence.offsetHeight;
  for (const node of view.evidence.querySelectorAll(".plot")) erase(node);
  view.evidence.style.minHeight = `${height}px`;
  view.evidence.replaceChildren(head, make("div", { class: "evidence-grid" }, test, drawing));
  try {
    const picture = await api.figure(view.model.name, question.record, K, at, question.prefix, view.look.signal);
    if (turn !== view.turn || view.looking !== plot) return;
    plot.replaceChildren();
    await draw(plot, picture.figure, view.name);
    plot.setAttribute("aria-label", picture.words);
    words.textContent = picture.words;
  } catch (error) {
    if (error.name === "AbortError" || turn !== view.turn || view.looking !== plot) return;
    plot.removeAttribute("role");
    plot.replaceChildren(problem(error, () => inspect(view, question, answer, at)));
  } finally {
    if (view.looking === plot) {
      view.evidence.style.minHeight = "";
      view.evidence.setAttribute("aria-busy", "false");
    }
  }
});
