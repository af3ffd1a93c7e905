// The tabs pattern: arrow keys, Home and End move and choose; one tab at a time is in the tab order.

import { make } from "./dom.js";

export function tabs(parts, label, chosen) {
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": label });
  const buttons = parts.map((part) =>
    make("button", { type: "button", role: "tab", id: `tab-${part.key}`, "aria-controls": `panel-${part.key}` },
      make("span", { class: "tab-name" }, part.name)));
  const choose = (place, focus) => {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === place));
      button.tabIndex = at === place ? 0 : -1;
      parts[at].panel.hidden = at !== place;
    });
    const own = buttons[place];
    if (focus) own.focus({ preventScroll: true });
    list.scrollTo({ left: own.offsetLeft - (list.clientWidth - own.offsetWidth) / 2, behavior: "auto" });
    history.replaceState(null, "", `#${parts[place].key}`);
    chosen(place);
  };
  buttons.forEach((button, at) => button.addEventListener("click", () => choose(at, false)));
  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const places = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 };
    if (at < 0 || !(event.key in places)) return;
    event.preventDefault();
    choose((places[event.key] + buttons.length) % buttons.length, true);
  });
  list.append(...buttons);
  return { list, choose };
}
