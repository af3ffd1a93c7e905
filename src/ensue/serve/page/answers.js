// Ranked answers, one of which can be chosen to see what it leaned on; and the measured part of that evidence.

import { drop, hidden, make, meter, percent, unique } from "./dom.js";

const shown = (choice) => (choice.probability ?? choice.score);

export function ranked(answer, kind, name, truth, chosen) {
  const group = unique("choice");
  const most = Math.max(...answer.choices.map(shown), 1e-9);
  const bounded = answer.choices.every((choice) => shown(choice) >= 0 && shown(choice) <= 1);
  const rows = answer.choices.map((choice, at) => {
    const value = shown(choice);
    const right = truth.includes(choice.value);
    const radio = make("input", { type: "radio", name: group, class: "unseen", value: String(at), onchange: () => chosen(at) });
    return make("label", { class: right ? "choice right" : "choice" }, radio,
      make("span", { class: "rank", "aria-hidden": "true" }, String(at + 1)),
      make("span", { class: "what" }, make("span", { class: "value" }, name(choice.value)), right ? make("span", { class: "tag" }, kind.truth) : null),
      make("span", { class: "score" }, bounded ? percent(value) : value.toFixed(2), hidden(` ${kind.score}`)),
      meter(bounded ? value / most : 0));
  });
  const field = make("fieldset", { class: "ranked" }, make("legend", {}, kind.rank), rows);
  return { field, pick: (at) => { const radio = field.querySelectorAll("input")[at]; if (radio) { radio.checked = true; chosen(at); } } };
}

// What really came, where the story tells it.
export function outcome(answer, kind, name, question) {
  if (!question.truth) return null;
  const lines = [];
  if (!question.truth.length) lines.push(question.held ? "None was marked as right." : kind.none || "");
  const begin = question.held ? `In the held-out data it was` : "The truth of this made-up event:";
  for (const value of question.truth) {
    const at = answer.choices.findIndex((choice) => choice.value === value);
    const where = at < 0 ? `not among these ${answer.choices.length}` : at === 0 ? "ranked first" : `ranked ${ordinal(at + 1)}`;
    lines.push(`${begin} ${name(value)}, ${where}.`);
  }
  if (question.through) lines.push(`It came through ${question.through}.`);
  return make("p", { class: "outcome" }, lines.join(" "));
}

function ordinal(place) {
  return ["", "first", "second", "third", "fourth", "fifth"][place] || `${place}th`;
}

export function remark(answer, kind) {
  const notes = [];
  if (!answer.choices.length) notes.push("Nothing that may be shown fits.");
  const sure = answer.choices.map((choice) => choice.probability).filter((value) => value !== undefined && value !== null);
  if (sure.length && Math.max(...sure) < 0.5) notes.push("No article reaches one half: it is probably about none of them.");
  if (answer.events && !answer.in_vocabulary) notes.push("Nothing of this is known to the model, so this is what is common.");
  else if (answer.in_vocabulary < answer.events) notes.push(`The model knows ${answer.in_vocabulary} of ${answer.events} ${kind.unit ? kind.unit[1] : "words"}.`);
  return notes.length ? make("p", { class: "note" }, notes.join(" ")) : null;
}

// The deletion test: the drop of the score when a thing is taken out and the model is asked again.
export function deletions(answer, at, kind, name) {
  const choice = answer.choices[at];
  const parts = [];
  if (choice.attributions && choice.attributions.length) parts.push(attributions(choice, kind, name));
  else if (!kind.closest) parts.push(make("p", { class: "note" }, "It leaned on nothing of this: it is what is common."));
  if (answer.deletion && at === 0) parts.push(together(answer.deletion, answer.choices[0].value));
  if (choice.sentence) parts.push(make("blockquote", {}, choice.sentence));
  if (kind.closest && !choice.sentence) parts.push(make("p", { class: "note" }, "No sentence of it shares a word with the post."));
  return make("div", { class: "tested" }, parts);
}

function attributions(choice, kind, name) {
  const most = Math.max(...choice.attributions.map((attribution) => attribution.weight), 1e-9);
  const rows = choice.attributions.map((attribution) =>
    make("tr", {}, make("th", { scope: "row" }, name(attribution.value), meter(attribution.weight / most)),
      make("td", { class: "figure" }, percent(attribution.weight)),
      make("td", { class: attribution.score_drop > 0.0005 ? "figure falls" : "figure" }, attribution.score_drop === null ? "not measured" : drop(attribution.score_drop))));
  const head = make("tr", {}, make("th", { scope: "col" }, kind.thing || (kind.unit ? kind.unit[0] : "value")),
    make("th", { scope: "col" }, "leaned on"), make("th", { scope: "col" }, "score drop without it, points"));
  return make("table", { class: "attributions" }, make("caption", { class: "unseen" }, `What ${name(choice.value)} leaned on, and the deletion test`),
    make("thead", {}, head), make("tbody", {}, rows));
}

function together(test, label) {
  const words = `${test.words} word${test.words === 1 ? "" : "s"}`;
  const most = Math.max(Math.abs(test.score_drop), Math.abs(test.random), 0.01);
  const row = (text, score, kind) => make("div", { class: "pair" }, make("span", {}, text), meter(Math.max(0, score) / most, kind), make("span", { class: "figure" }, drop(score)));
  return make("div", { class: "together" },
    make("p", { class: "label" }, `All at once: the score of ${label}`),
    row(`without the ${words} leaned on most`, test.score_drop, ""),
    row(`without ${words} at random`, test.random, "pale"),
    make("p", { class: "note" }, test.score_drop <= test.random ? "Words at random matter as much: the weights tell nothing here." : `Random is the mean of ${test.draws} draws.`));
}
