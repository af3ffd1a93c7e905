// Elements from plain values. Text is only ever set as text, so nothing that is typed or served becomes markup.

export function make(tag, fields = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export function hidden(text) {
  return make("span", { class: "unseen" }, text);
}

export function percent(share) {
  if (!Number.isFinite(share)) return "";
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value < 100 && value > 99.9) return "> 99.9 %";
  return `${value >= 10 ? value.toFixed(0) : value.toFixed(1)} %`;
}

// The drop of a score, in hundredths: "4.2" where it falls, "−0.3" where it rises.
export function drop(score) {
  const points = 100 * score;
  if (Math.abs(points) < 0.05) return "0";
  return `${points < 0 ? "−" : ""}${Math.abs(points).toFixed(1)}`;
}

export function meter(share, kind = "") {
  const fill = make("span", { class: `fill ${kind}` });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return make("span", { class: "meter", "aria-hidden": "true" }, fill);
}

let count = 0;
export function unique(stem) {
  count += 1;
  return `${stem}-${count}`;
}

export function later(wait, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

export function waiting(text) {
  return make("p", { class: "state", role: "status" }, make("span", { class: "spin", "aria-hidden": "true" }), text);
}

// What went wrong, in the service's own line, and a way to try again.
export function problem(error, again) {
  const lines = [make("p", {}, error.message)];
  if (error.hint) lines.push(make("p", { class: "note" }, error.hint));
  if (again) lines.push(make("button", { type: "button", onclick: again }, "Try again"));
  return make("div", { class: "problem", role: "alert" }, lines);
}
