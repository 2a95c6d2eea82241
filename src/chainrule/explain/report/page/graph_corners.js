// What stands over the graph's corners: names of the passes, legend, zoom.

import { cividis, colourText } from "./colours.js";
import { element } from "./dom.js";
import { colourChoices, quantityOf } from "./graph_states.js";
import { bytesText, numberText, percentText } from "./words.js";

const NOTE_HEIGHT = 20;
const SHORT_BELOW = 0.5; // the scale at which the words would reach into the boxes

/**
 * The words of each pass, at the left edge, beside their pass wherever the view is.
 * @returns {{view: HTMLElement, place: function(any, any, any): void}}
 */
export function createNotes() {
  const view = element("div", { class: "notes" });
  const place = (camera, layout, drawing) => {
    const bands = [...drawing.bands];
    if (drawing.backward) bands.splice(drawing.backward.band + 1, 0, drawing.backward);
    while (view.children.length < bands.length) view.append(element("p"));
    let floor = Infinity; // the note below stands here: that of a band above keeps clear of it
    [...bands.entries()].reverse().forEach(([number, band]) => {
      const note = /** @type {HTMLElement} */ (view.children[number]);
      const [top, bottom] = layout.spans[number] ?? [0, 0];
      const below = band.note.startsWith("←");
      const world = below ? bottom + 20 : top - 20;
      const wanted = world * camera.scale + camera.y + (below ? 0 : -NOTE_HEIGHT);
      const y = Math.min(wanted, floor - NOTE_HEIGHT);
      floor = y;
      note.textContent = camera.scale < SHORT_BELOW ? band.note.split(" (")[0] : band.note;
      note.style.transform = `translateY(${Math.round(y)}px)`;
      note.hidden = bottom === top;
    });
  };
  return { view, place };
}

/**
 * What the colours say: kinds, or the scale of a quantity.
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createLegend(page) {
  const view = element("div", { class: "legend", role: "group", "aria-label": "Legend" });
  const draw = () => {
    const { colour } = page.store.state;
    const quantity = quantityOf(page.model, colour);
    view.replaceChildren(...(quantity ? quantityLegend(page, colour, quantity) : kindLegend(page)));
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

function legendEntry(look, text) {
  return element(
    "span",
    { class: "entry" },
    element("span", { class: look, "aria-hidden": "true" }),
    text,
  );
}

function quantityLegend(page, colour, { scale }) {
  const spell = colour === "nbytes" ? bytesText : numberText;
  const title = colourChoices(page.data).find(([key]) => key === colour)[1];
  const ends = [0, 0.25, 0.5, 0.75, 1].map((at) => colourText(cividis(at)));
  const bar = element("span", { class: "colour-bar", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${ends.join(", ")})`;
  const how = scale.byPowers ? " (logarithmic)" : "";
  return [
    element("span", {}, `${title}${how}`),
    element("span", {}, spell(scale.low)),
    bar,
    element("span", {}, spell(scale.high)),
  ];
}

/**
 * Zoom buttons, and how large the graph is shown.
 * @param {import("./graph.js").GraphView} graph
 * @returns {HTMLElement}
 */
export function createGraphCorner(graph) {
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
    { class: "corner" },
    button("−", "Zoom out", () => graph.zoom(-1)),
    percent,
    button("+", "Zoom in", () => graph.zoom(1)),
  );
}
