// What is asked: an item of the story, a text of one's own, or steps that can be added and taken away.

import { make, unique } from "./dom.js";

// A list of items to pick from; arrow keys move within it.
export function picks(legend, items, describe, chosen) {
  const group = unique("pick");
  const cards = items.map((item, at) => {
    const [text, by] = describe(item);
    const radio = make("input", { type: "radio", name: group, value: String(at), class: "unseen", onchange: () => chosen(item) });
    return make("label", { class: "card" }, radio, make("span", { class: "said" }, text), make("span", { class: "by" }, by));
  });
  const field = make("fieldset", { class: "picks" }, make("legend", {}, legend), make("div", { class: "cards" }, cards));
  const radios = () => [...field.querySelectorAll("input")];
  return {
    field,
    first: () => { radios()[0].checked = true; chosen(items[0]); },
    clear: () => radios().forEach((radio) => { radio.checked = false; }),
  };
}

// A text of one's own, or two where the model compares pairs.
export function texts(kind, paired, ask) {
  const areas = (paired ? ["First text", "Second text"] : ["Your text"]).map((name, at) => {
    const id = unique("text");
    const area = make("textarea", { id, rows: "3", placeholder: at ? "" : kind.hint });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); }
    });
    return { area, label: make("label", { for: id }, name) };
  });
  const note = make("p", { class: "note", role: "status" });
  const send = () => {
    const written = areas.map(({ area }) => area.value.trim());
    note.textContent = written.every(Boolean) ? "" : "Write something first.";
    if (written.every(Boolean)) ask(written);
  };
  const form = make("form", { class: "own", onsubmit: (event) => { event.preventDefault(); send(); } },
    areas.flatMap(({ label, area }) => [label, area]), make("button", { type: "submit" }, "Ask"), note);
  return form;
}

// Steps as chips, and a field to add one. `typed` is told of each letter, for suggestions as one types.
export function trail(kind, offered, name, changed, typed) {
  const state = { values: [], times: [] };
  const list = make("ol", { class: "steps", "aria-label": kind.steps });
  const id = unique("add");
  const field = make("input", { id, autocomplete: "off", spellcheck: "false", enterkeyhint: "enter" });
  const status = make("p", { class: "unseen", role: "status" });
  const names = new Map(offered.map((value) => [name(value).toLowerCase(), value]));
  const show = () => {
    list.replaceChildren(...state.values.map((value, at) =>
      make("li", {}, make("span", {}, name(value)),
        make("button", { type: "button", class: "drop", "aria-label": `Take away ${name(value)}`, onclick: () => drop(at) }, "×"))));
    if (!state.values.length) list.append(make("li", { class: "nothing" }, `no ${kind.unit[0]} yet`));
  };
  const drop = (at) => {
    const [value] = state.values.splice(at, 1);
    if (state.times.length) state.times.splice(at, 1);
    status.textContent = `${name(value)} taken away`;
    show();
    (list.querySelectorAll(".drop")[Math.max(0, at - 1)] || field).focus();
    changed(state);
  };
  const add = (value) => {
    if (!value) return;
    if (state.times.length) state.times.push(state.times[state.times.length - 1] + kind.pause);
    state.values.push(names.get(value.toLowerCase()) || value);
    field.value = "";
    status.textContent = `${value} added`;
    show();
    changed(state);
  };
  const form = make("form", { class: "add", onsubmit: (event) => { event.preventDefault(); add(field.value.trim()); } },
    make("label", { for: id }, kind.add), make("div", { class: "add-row" }, field, make("button", { type: "submit", class: "quiet" }, "Add")));
  if (typed) field.addEventListener("input", () => typed(field.value));
  else if (offered.length) {
    const options = unique("known");
    field.setAttribute("list", options);
    form.append(make("datalist", { id: options }, offered.map((value) => make("option", { value: name(value) }))));
  }
  const box = make("div", { class: "trail" }, make("p", { class: "label", "aria-hidden": "true" }, kind.steps), list, status, form);
  const set = (values, times = []) => {
    state.values = [...values];
    state.times = times.length === values.length ? [...times] : [];
    field.value = "";
    show();
  };
  show();
  return { box, field, set, add, state };
}
