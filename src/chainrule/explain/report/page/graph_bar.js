// The line above the graph: what its colours say, and how large it is shown; in a small window
// also what the head of the page has no room for.

import { colourSelect } from "./colour_select.js";
import { colourText } from "./colours.js";
import { element } from "./dom.js";
import { colourChoices, quantityOf } from "./quantities.js";
import { bytesText, numberText, percentText } from "./words.js";

/** What the colours say: kinds, or the scale of a quantity. */
function createLegend(page) {
  const view = element("div", { class: "legend", role: "group", "aria-label": "Legend" });
  const draw = () => {
    const { colour } = page.store.state;
    const quantity = quantityOf(page.model, colour);
    const entries = quantity ? quantityLegend(page, colour, quantity) : kindLegend(page);
    view.classList.toggle("scales", quantity !== null);
    view.replaceChildren(...entries, ...budgetLegend(page));
  };
  page.store.subscribe(["colour"], draw);
  draw();
  return view;
}

function kindLegend({ data }) {
  const roles = new Set(data.drawing.items.map((item) => item.role));
  const entries = [
    ["variable", "variable"],
    ["parameter", "parameter"],
    ["operator", "operator"],
    ["gradient", "gradient"],
    ["parameter-gradient", "parameter's gradient"],
    ["update", "update"],
  ];
  const shown = entries.filter(([role]) => roles.has(role));
  const marks = shown.map(([role, text]) => legendEntry(`mark ${role}`, text));
  if (data.drawing.backward) marks.push(legendEntry("mark kept", "kept"));
  return marks;
}

/** What is dashed within the chosen budget; always there, so that the slider moves nothing else. */
function budgetLegend({ budgets }) {
  const entry = legendEntry("mark again-mark", "↻ computed again within the budget");
  return budgets?.rows.length ? [entry] : [];
}

function legendEntry(look, text) {
  return element(
    "span",
    { class: "entry" },
    element("span", { class: look, "aria-hidden": "true" }),
    text,
  );
}

function quantityLegend(page, colour, { scales }) {
  const title = colourChoices(page.data).find(([key]) => key === colour)[1];
  return scales.map((scale) => scaleLegend(scale, title, colour));
}

/** `norm of gradients 0.02 ▭ 1.3`. */
function scaleLegend(scale, title, colour) {
  const spell = colour === "nbytes" ? bytesText : numberText;
  const ends = [0, 0.25, 0.5, 0.75, 1].map((at) => colourText(scale.colour(at)));
  const bar = element("span", { class: "colour-bar", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${ends.join(", ")})`;
  const how = scale.byPowers ? " (logarithmic)" : "";
  const whose = scale.of ? ` of ${scale.of}` : "";
  const same = scale.low === scale.high;
  return element(
    "span",
    { class: "entry scale" },
    element("span", {}, `${title}${whose}${how}`),
    element("span", {}, spell(scale.low)),
    same ? "" : bar,
    same ? "" : element("span", {}, spell(scale.high)),
  );
}

/**
 * The legend, and beside it the buttons of a small window and the zoom buttons.
 * @param {import("./graph.js").GraphView} graph
 * @returns {HTMLElement}
 */
export function createGraphBar(graph) {
  const { page } = graph;
  return element(
    "div",
    { class: "graph-bar" },
    createLegend(page),
    createNarrowTools(graph),
    createZoom(graph),
  );
}

/** The summary of the whole, which is a sheet in a small window, the colours, and fit. */
function createNarrowTools(graph) {
  const { store, actions } = graph.page;
  const isShown = () => store.state.selected === null && store.state.asked;
  const button = (text, look, click) =>
    element("button", { type: "button", class: look, click }, text);
  const summary = button("Summary", "summary-button", () => actions.select(null, !isShown()));
  summary.title = "Peak of memory, gradients, dead units, loops";
  const write = () => summary.setAttribute("aria-expanded", String(isShown()));
  store.subscribe(["selected", "asked"], write);
  write();
  const fit = button("Fit", "narrow-fit", () => graph.fit());
  const colours = colourSelect(graph.page, null);
  return element("div", { class: "narrow-tools" }, summary, colours, fit);
}

function createZoom(graph) {
  const button = (text, label, click) =>
    element("button", { type: "button", "aria-label": label, title: label, click }, text);
  const percent = element("span", { class: "percent" });
  const write = () => {
    percent.textContent = percentText(graph.page.store.state.view.scale);
  };
  graph.page.store.subscribe(["view"], write);
  write();
  return element(
    "div",
    { class: "zoom", role: "group", "aria-label": "Zoom" },
    button("−", "Zoom out", () => graph.zoom(-1)),
    percent,
    button("+", "Zoom in", () => graph.zoom(1)),
  );
}
