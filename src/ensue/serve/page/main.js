// Begins: which models are served, which story, and a panel for each question that can be asked.

import * as api from "./api.js";
import { make, problem, waiting } from "./dom.js";
import { panelsOf } from "./kinds.js";
import { panel } from "./panel.js";
import { scores } from "./scores.js";
import { tabs } from "./tabs.js";
import { askToken, onToken } from "./token.js";

const place = document.getElementById("panels");

async function begin() {
  place.replaceChildren(waiting("Looking which models are served…"));
  try {
    const [models, story] = await Promise.all([api.models(), api.story()]);
    if (story) tell(story);
    else document.getElementById("lead").textContent = `${models.map((model) => model.name).join(", ")}: ask what is served here, and see what it leaned on.`;
    const parts = panelsOf(models, story);
    if (parts.length) show(parts, story);
    else if (models.length) place.replaceChildren(make("p", { class: "state" }, "This page has no question for what is served; POST /v1/models/NAME/predict answers."));
    else place.replaceChildren(make("p", { class: "state" }, "No model is served. Start the service with a model folder: ensue serve FOLDER"));
  } catch (error) {
    place.replaceChildren(problem(error, begin));
    if (error.status === 401) askToken();
  }
}

function tell(story) {
  document.title = `${story.title} · ensue`;
  document.getElementById("title").textContent = story.title;
  document.getElementById("lead").textContent = story.summary;
  document.getElementById("eyebrow").hidden = false;
  scores(document.getElementById("scores"), story);
}

function show(parts, story) {
  const panels = parts.map(({ kind, models }) => panel(kind, models, story));
  const bar = tabs(panels, "Questions", (at) => panels[at].open());
  place.replaceChildren(bar.list, ...panels.map((one) => one.panel));
  const wanted = panels.findIndex((one) => `#${one.key}` === location.hash);
  bar.choose(Math.max(wanted, 0), false);
}

onToken(begin);
begin();
