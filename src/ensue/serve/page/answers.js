// Ranked answers, one of which can be chosen for its evidence, and the deletion test of that evidence.

import { drop, hidden, make, meter, percent, unique } from "./dom.js";

const shown = (choice) => (choice.probability ?? choice.score);

export function ranked(answer, kind, name, truth, chosen) {
  const group = unique("choice");
  const bounded = answer.choices.every((choice) => shown(choice) >= 0 && shown(choice) <= 1);
  const rows = answer.choices.map((choice, at) => {
    const value = shown(choice);
    const right = truth.includes(choice.value);
    const radio = make("input", { type: "radio", name: group, class: "unseen", value: String(at), onchange: () => chosen(at) });
    return make("label", { class: right ? "choice right" : "choice" }, radio,
      make("span", { class: "rank", "aria-hidden": "true" }, String(at + 1)),
      make("span", { class: "what" }, make("span", { class: "value" }, choice.title || name(choice.value)), right ? make("span", { class: "tag" }, kind.truth) : null),
      make("span", { class: "score" }, bounded ? percent(value) : value.toFixed(2), hidden(` ${kind.score}`)),
      meter(bounded ? value : 0));
  });
  const field = make("fieldset", { class: "ranked" }, make("legend", {}, bounded ? `${kind.rank} (bars: 0 to 100 %)` : kind.rank), rows);
  return { field, pick: (at) => { const radio = field.querySelectorAll("input")[at]; if (radio) { radio.checked = true; chosen(at); } } };
}

// What really came, where the story tells it.
export function outcome(answer, kind, name, question) {
  if (!question.truth) return null;
  const lines = [];
  if (!question.truth.length) lines.push(question.held ? "No answer was marked as right." : kind.none || "");
  const begin = question.held ? "True answer in the held-out data:" : "True answer in this made-up event:";
  for (const value of question.truth) {
    const at = answer.choices.findIndex((choice) => choice.value === value);
    const where = at < 0 ? `not among these ${answer.choices.length}` : at === 0 ? "ranked first" : `ranked ${ordinal(at + 1)}`;
    lines.push(`${begin} ${name(value)}, ${where}.`);
  }
  if (question.through) lines.push(`True source: ${question.through}.`);
  return make("p", { class: "outcome" }, lines.join(" "));
}

function ordinal(place) {
  return ["", "first", "second", "third", "fourth", "fifth"][place] || `${place}th`;
}

export function remark(answer, kind) {
  const notes = [];
  if (!answer.choices.length) notes.push("No answer that may be shown.");
  const sure = answer.choices.map((choice) => choice.probability).filter((value) => value !== undefined && value !== null);
  if (sure.length && Math.max(...sure) < 0.5) notes.push("No article reaches 50 %: the post is probably about none of them.");
  if (answer.events && !answer.in_vocabulary) notes.push("Nothing in the input is known to the model; these are generally frequent answers.");
  else if (answer.in_vocabulary < answer.events) notes.push(`${answer.in_vocabulary} of ${answer.events} ${kind.unit ? kind.unit[1] : "words"} are in the vocabulary of the model.`);
  return notes.length ? make("p", { class: "note" }, notes.join(" ")) : null;
}

// The deletion test: the drop of the score when a thing is taken out and the model is asked again.
export function deletions(answer, at, kind, name) {
  const choice = answer.choices[at];
  const parts = [];
  if (choice.attributions && choice.attributions.length) parts.push(attributions(choice, kind, name));
  else if (!kind.closest) parts.push(make("p", { class: "note" }, "No attributions: the answer is generally frequent."));
  if (answer.deletion && at === 0) parts.push(together(answer.deletion, answer.choices[0].value));
  if (choice.sentence) parts.push(make("blockquote", {}, choice.sentence));
  if (kind.closest && !choice.sentence) parts.push(make("p", { class: "note" }, "No sentence of the article shares a word with the post."));
  return make("div", { class: "tested" }, parts);
}

function attributions(choice, kind, name) {
  const rows = choice.attributions.map((attribution) =>
    make("tr", {}, make("th", { scope: "row" }, name(attribution.value), meter(attribution.weight)),
      make("td", { class: "figure" }, percent(attribution.weight)),
      make("td", { class: attribution.score_drop > 0.0005 ? "figure falls" : "figure" }, attribution.score_drop === null ? "not measured" : drop(attribution.score_drop))));
  const head = make("tr", {}, make("th", { scope: "col" }, kind.thing || (kind.unit ? kind.unit[0] : "value")),
    make("th", { scope: "col" }, "weight"), make("th", { scope: "col" }, "score drop without it, points"));
  return make("table", { class: "attributions" }, make("caption", { class: "unseen" }, `Attributions of ${name(choice.value)}, and the deletion test`),
    make("thead", {}, head), make("tbody", {}, rows));
}

function together(test, label) {
  const words = `${test.words} word${test.words === 1 ? "" : "s"}`;
  const row = (text, score, kind) => make("div", { class: "pair" }, make("span", {}, text), meter(score, kind), make("span", { class: "figure" }, drop(score)));
  return make("div", { class: "together" },
    make("p", { class: "label" }, `Score drop of ${label} in points (bars: 0 to 100)`),
    row(`without the ${words} with the largest weights`, test.score_drop, ""),
    row(`without ${words} at random`, test.random, "pale"),
    make("p", { class: "note" }, test.score_drop <= test.random ? "Random words matter as much: the weights are not informative here." : `Random: mean of ${test.draws} draws.`));
}
