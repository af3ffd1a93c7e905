// The API, readable: every address of the service's own OpenAPI document. Nothing else is asked for.

import * as api from "./api.js";
import { make, problem, waiting } from "./dom.js";
import { askToken, onToken } from "./token.js";

const place = document.getElementById("operations");

async function begin() {
  place.replaceChildren(waiting("Reading the description…"));
  try {
    show(await api.description());
  } catch (error) {
    place.replaceChildren(problem(error, begin));
    if (error.status === 401) askToken();
  }
}

function show(whole) {
  const every = Object.entries(whole.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, own]) => ({ path, method: method.toUpperCase(), own, id: `${method}${path}`.replace(/[^a-z0-9]+/gi, "-") })));
  const tags = [...new Set(every.map(({ own }) => own.tags?.[0] || "other"))];
  const of = (tag) => every.filter(({ own }) => (own.tags?.[0] || "other") === tag);
  document.getElementById("lead").append(` Version ${whole.info.version}.`);
  document.getElementById("contents").replaceChildren(...tags.map((tag) => make("section", {},
    make("h2", {}, tag), make("ul", {}, of(tag).map(({ path, method, own, id }) =>
      make("li", {}, make("a", { href: `#${id}` }, make("code", {}, `${method} ${path}`)), make("span", { class: "by" }, own.summary || "")))))));
  place.replaceChildren(...every.map((one) => operation(one, whole)));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function operation({ path, method, own, id }, whole) {
  const body = own.requestBody?.content?.["application/json"];
  const answers = Object.entries(own.responses || {});
  const success = answers.filter(([status]) => status.startsWith("2"));
  return make("article", { class: "operation", id },
    make("h3", {}, make("code", {}, `${method} ${path}`)),
    make("p", {}, own.summary || ""),
    own.description ? make("p", { class: "note" }, own.description) : null,
    own.parameters?.length ? table("Given in the address or the head", own.parameters.map((one) =>
      [one.name, `${kind(one.schema, whole)}${one.required ? "" : ", may be left out"}`, one.description || `in: ${one.in}`])) : null,
    body ? shapes("Body", body.schema, whole) : null,
    body?.examples ? Object.entries(body.examples).map(([name, example]) => sample(name, method, path, example.value, whole)) : null,
    success.map(([status, answer]) => shapes(`Answer ${status}`, answer.content?.["application/json"]?.schema, whole)),
    table("May also answer", answers.filter(([status]) => !status.startsWith("2") && status !== "default").map(([status, answer]) => [status, "", answer.description || ""])));
}

// A body of every task is a choice of several shapes: each gets a table of its own.
function shapes(title, schema, whole) {
  if (!schema) return null;
  const own = resolved(schema, whole);
  if (own.anyOf && own.anyOf.every((one) => resolved(one, whole).properties)) return own.anyOf.map((one) => shapes(`${title}: ${nameOf(one)}`, one, whole));
  const items = own.type === "array" ? resolved(own.items || {}, whole) : own;
  if (!items.properties) return Object.keys(own).length ? make("p", { class: "note" }, `${title}: ${kind(own, whole)}`) : null;
  const needed = new Set(items.required || []);
  const rows = Object.entries(items.properties).map(([name, field]) => {
    const first = field.default === undefined || field.default === null ? "" : `; ${JSON.stringify(field.default)} unless given`;
    return [name, `${kind(field, whole)}${needed.has(name) ? ", needed" : ""}`, `${resolved(field, whole).description || field.description || ""}${first}`.replace(/^; /, "")];
  });
  return table(own.type === "array" ? `${title}: a list of` : title, rows);
}

const nameOf = (schema) => (schema.$ref || schema.title || "").split("/").pop();

function resolved(schema, whole) {
  if (!schema?.$ref) return schema || {};
  return schema.$ref.slice(2).split("/").reduce((at, key) => at?.[key], whole) || {};
}

function kind(schema, whole) {
  if (!schema) return "";
  if (schema.$ref) return nameOf(schema);
  if (schema.anyOf) return [...new Set(schema.anyOf.map((one) => kind(one, whole)))].join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (schema.type === "array") {
    const most = schema.maxItems === undefined ? "" : `up to ${schema.maxItems.toLocaleString("en")} `;
    return `list of ${most}${kind(schema.items, whole) || "values"}`;
  }
  const bounds = [["minimum", "from"], ["maximum", "to"], ["maxLength", "up to"]].filter(([key]) => schema[key] !== undefined).map(([key, word]) => `${word} ${schema[key].toLocaleString("en")}`);
  return [schema.type || "anything", ...bounds].join(" ");
}

function table(title, rows) {
  if (!rows.length) return null;
  const id = `t${(table.count = (table.count || 0) + 1)}`;
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": id }, make("table", { class: "fields" },
    make("caption", { id }, title),
    make("tbody", {}, rows.map(([name, type, words]) => make("tr", {}, make("th", { scope: "row" }, make("code", {}, name)), make("td", {}, type), make("td", {}, words))))));
}

function sample(name, method, path, value, whole) {
  const names = whole.paths[path][method.toLowerCase()].parameters?.find((one) => one.in === "path")?.schema?.enum;
  const address = path.replace("{name}", names?.[0] || "NAME");
  const text = `curl -X ${method} ${location.origin}${address} \\\n  -H 'content-type: application/json' \\\n  -d '${JSON.stringify(value).replaceAll("'", "'\\''")}'`;
  return make("details", { class: "sample" }, make("summary", {}, `Example: ${name}`), make("pre", { tabindex: "0" }, make("code", {}, text)));
}

onToken(begin);
begin();
