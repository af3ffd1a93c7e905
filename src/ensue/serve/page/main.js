// Entry point: load the models and the demo scenario, and build one panel per question.

import * as api from "./api.js";
import { make, problem, waiting } from "./dom.js";
import { panelsOf } from "./kinds.js";
import { panel } from "./panel.js";
import { scores } from "./scores.js";
import { tabs } from "./tabs.js";
import { askToken, onToken } from "./token.js";

const place = document.getElementById("panels");

async function begin() {
  place.replaceChildren(waiting("Loading the list of models…"));
  try {
    const [models, story] = await Promise.all([api.models(), api.story()]);
    if (story) tell(story);
    else document.getElementById("lead").textContent = `${models.map((model) => model.name).join(", ")}: query them and see the evidence of each answer.`;
    const parts = panelsOf(models, story);
    if (parts.length) show(parts, story);
    else if (models.length) place.replaceChildren(make("p", { class: "state" }, "This page has no panel for the served models; use POST /v1/models/NAME/predict."));
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
