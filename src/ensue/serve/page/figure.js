// Plotly figures of the service, dressed in the colours of the page, light or dark.

const dark = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const drawn = new Map();
let loading = null;

function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/page/plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { loading = null; reject(new Error("The drawing library did not load.")); };
    document.head.append(script);
  });
  return loading;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { ink: read("--ink"), muted: read("--muted"), line: read("--line"), accent: read("--accent"), pale: read("--pale"), warm: read("--warm"),
    ground: read("--ground"), scale: [[0, read("--scale-0")], [0.35, read("--scale-1")], [1, read("--scale-2")]] };
}

// Draws; `name` says how a value reads where the figure holds ids.
export async function draw(node, figure, name) {
  const plotly = await library();
  if (!node.isConnected) return;
  drawn.set(node, { figure, name });
  await put(plotly, node);
}

async function put(plotly, node) {
  const { figure, name } = drawn.get(node);
  const { data, layout } = dressed(structuredClone(figure), colours(), node.clientWidth, name);
  await plotly.react(node, data, layout, { displayModeBar: false, responsive: true, staticPlot: false, scrollZoom: false, doubleClick: false });
}

export function erase(node) {
  drawn.delete(node);
  if (window.Plotly && node.classList.contains("js-plotly-plot")) window.Plotly.purge(node);
  node.replaceChildren();
}

dark.addEventListener("change", () => {
  for (const node of drawn.keys()) node.isConnected ? put(window.Plotly, node) : drawn.delete(node);
});

function dressed(figure, colour, width, name) {
  const narrow = width < 420;
  const layout = figure.layout || {};
  const kinds = new Set(figure.data.map((trace) => trace.type || "scatter"));
  for (const part of ["title", "template", "annotations", "width"]) delete layout[part];
  const size = narrow ? 12 : 13;
  const font = { family: getComputedStyle(document.body).fontFamily, size, color: colour.ink };
  Object.assign(layout, { font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true, dragmode: false,
    margin: { l: 8, r: 8, t: 8, b: 8 }, hoverlabel: { bgcolor: colour.ink, bordercolor: colour.ink, font: { ...font, color: colour.ground } },
    transition: { duration: still.matches ? 0 : 150 } });
  layout.xaxis ??= {};
  layout.yaxis ??= {};
  for (const axis of [layout.xaxis, layout.yaxis]) dressAxis(axis, colour, size);
  for (const shape of layout.shapes || []) shape.line = { color: colour.muted, width: 1, dash: "dot" };
  figure.data.forEach((trace, place) => dressTrace(trace, place, colour, narrow));
  if (figure.data.some((trace) => trace.name === "events")) asCascade(layout, narrow, name);
  else if (kinds.has("heatmap")) asTable(figure, layout, narrow);
  else if (kinds.has("bar")) asBars(figure, layout, narrow, name);
  else asGraph(figure, layout, width);
  return { data: figure.data, layout };
}

function dressAxis(axis, colour, size) {
  Object.assign(axis, { automargin: true, gridcolor: colour.line, linecolor: colour.line, zerolinecolor: colour.muted, tickcolor: colour.line, zeroline: false,
    tickfont: { size, color: colour.ink }, fixedrange: true });
  if (axis.title) axis.title = { text: axis.title.text, font: { size: 12, color: colour.muted }, standoff: 12 };
}

function dressTrace(trace, place, colour, narrow) {
  if (trace.type === "heatmap") {
    Object.assign(trace, { colorscale: colour.scale, showscale: !narrow, xgap: 2, ygap: 2, colorbar: bar(colour, "weight") });
  } else if (trace.type === "bar") {
    const own = Array.isArray(trace.marker?.color) ? trace.marker.color.map((one) => (one === "seagreen" ? colour.accent : colour.pale)) : [colour.accent, colour.warm][place % 2];
    trace.marker = { color: own };
    trace.textposition = "none";
  } else if (trace.name === "words") {
    Object.assign(trace.marker, { colorscale: colour.scale, size: narrow ? 15 : 20, line: { color: colour.accent, width: 1 }, showscale: false });
    trace.textfont = { color: colour.ink, size: narrow ? 12 : 13 };
    trace.textposition = trace.x.map((x, at) => beside(x, trace.y[at]));
  } else if (trace.name === "arrows") trace.marker.color = colour.muted;
  else if (trace.name === "attention") trace.line.color = colour.accent;
  else if (trace.name === "true edge") trace.line.color = colour.warm;
  else if (trace.name === "events") trace.marker.color = colour.ink;
  else if (trace.line) Object.assign(trace.line, { color: colour.muted });
  if (trace.name === "connections") trace.opacity = 0.2 + 0.13 * trace.line.width;
}

function beside(x, y) {
  if (Math.abs(x) < 1e-6) return y > 0 ? "top center" : "bottom center";
  return x > 0 ? "middle right" : "middle left";
}

function bar(colour, title) {
  return { title: { text: title, side: "right", font: { size: 12, color: colour.muted } }, thickness: 8, len: 0.8, outlinewidth: 0, tickfont: { size: 12, color: colour.muted }, nticks: 4 };
}

function asTable(figure, layout, narrow) {
  const rows = figure.data[0].z.length;
  layout.height = Math.max(220, (narrow ? 32 : 38) * rows + (narrow ? 130 : 120));
  layout.xaxis.tickangle = -35;
  for (const axis of [layout.xaxis, layout.yaxis]) Object.assign(axis, { showgrid: false, showline: false, ticks: "" });
  layout.showlegend = false;
  if (narrow) for (const axis of [layout.xaxis, layout.yaxis]) axis.title = undefined;
}

// People along time: a row each, its name before it.
function asCascade(layout, narrow, name) {
  const labels = layout.yaxis.ticktext;
  layout.height = Math.max(220, 34 * labels.length + 90);
  layout.yaxis.ticktext = labels.map((label) => short(label, name, narrow ? 14 : 26));
  for (const axis of [layout.xaxis, layout.yaxis]) Object.assign(axis, { ticks: "", showline: false, zeroline: false });
  Object.assign(layout.xaxis, { nticks: narrow ? 4 : 8, tickangle: 0 });
  layout.showlegend = false;
}

// Bars lie down, so that their names can be read.
function asBars(figure, layout, narrow, name) {
  const standing = figure.data.filter((trace) => trace.orientation !== "h");
  const count = (standing.length ? figure.data[0].x : figure.data[0].y).length;
  if (standing.length) {
    const labels = [...figure.data[0].x];
    const places = labels.map((label, at) => count - 1 - at);
    const ticks = { tickangle: 0, autorange: true, tickvals: places, ticktext: labels.map((label) => short(label, name, narrow ? 16 : 26)) };
    Object.assign(layout, { xaxis: { ...layout.yaxis, title: undefined }, yaxis: { ...layout.xaxis, ...ticks, title: undefined } });
    for (const trace of standing) {
      const hovers = labels.map((label, at) => `${label}: ${Number(trace.y[at]).toFixed(3)}`);
      Object.assign(trace, { orientation: "h", x: trace.y, y: places, hovertext: hovers, hoverinfo: "text+name", hovertemplate: undefined });
    }
  }
  layout.height = Math.max(200, (standing.length ? 46 : 24) * count + (standing.length ? 100 : 70));
  Object.assign(layout.yaxis, { showgrid: false, ticks: "", showline: false });
  Object.assign(layout.xaxis, { zeroline: true, showline: false, ticks: "", nticks: 6, tickangle: 0 });
  const legend = { orientation: "h", x: 0.5, y: -0.14, xanchor: "center", yanchor: "top", traceorder: "normal" };
  Object.assign(layout, { bargap: 0.4, legend, showlegend: figure.data.length > 1 });
}

// "2: ferry-night" reads "2  Ferry adds night…".
function short(label, name, most) {
  const [, place, value] = /^(\d+): (.*)$/s.exec(label) || [null, "", label];
  const read = name(value);
  return `${read.length > most ? `${read.slice(0, most - 1)}…` : read}${place ? `  ${place}` : ""} `;
}

// The circle of words fills its box and leaves room for the longest word; light words go without their number.
function asGraph(figure, layout, width) {
  const narrow = width < 420;
  layout.height = narrow ? 460 : 520;
  layout.showlegend = false;
  let longest = 0;
  for (const trace of figure.data.filter((one) => one.name === "words")) {
    trace.text = trace.text.map((text) => cut(text.replace(/ 0\.0[0-4]$/, ""), narrow ? 15 : 26));
    longest = Math.max(...trace.text.map((text) => text.length));
  }
  const half = width / 2 - 8, room = Math.max(half - 16 - 7.5 * longest, 40);
  Object.assign(layout.xaxis, { range: [-half / room, half / room], showgrid: false });
  Object.assign(layout.yaxis, { range: [-1.15, 1.15], showgrid: false });
}

// "extraordinarily 0.12" keeps its number.
function cut(text, most) {
  const [, word, number] = /^(.*?)( \d\.\d\d)?$/s.exec(text);
  const left = most - (number || "").length;
  return `${word.length > left ? `${word.slice(0, left - 1)}…` : word}${number || ""}`;
}
