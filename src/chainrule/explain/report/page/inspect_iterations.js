// What a loop does at one iteration: a slider over t, and the numbers of each of its values there.

import { element } from "./dom.js";
import { countText, numberText } from "./words.js";

const AT_ITERATION = ["min", "max", "mean", "norm"];
const chosenIterations = new Map(); // the first result of a loop -> the place of its iteration

/**
 * Nothing where the page has no numbers of the iterations.
 * @param {import("./chips.js").Page} page
 * @param {{results: number[]}} loop of a value
 * @returns {HTMLElement[]}
 */
export function iterationsContent(page, { results }) {
  const { iterations } = page.model.values[results[0]];
  if (!iterations) return [];
  const { at, values } = iterations;
  const body = element("tbody");
  const output = element("output", { class: "iteration" });
  const slider = /** @type {HTMLInputElement} */ (
    element("input", {
      type: "range",
      min: 0,
      max: at.length - 1,
      "aria-label": "Iteration of the loop",
      input: () => show(Number(slider.value)),
    })
  );
  const show = (place) => {
    chosenIterations.set(results[0], place);
    slider.value = String(place);
    const told = `t = ${countText(at[place] + 1)}`;
    output.textContent = `${told} (slice ${countText(at[place])})`;
    slider.setAttribute("aria-valuetext", told);
    body.replaceChildren(...values.map((value) => iterationRow(value, place)));
  };
  show(Math.min(chosenIterations.get(results[0]) ?? 0, at.length - 1));
  const head = ["at t", ...AT_ITERATION].map((text) => element("th", { scope: "col" }, text));
  return [
    element("div", { class: "iterations" }, slider, output),
    element(
      "table",
      { class: "statistics results at-iteration" },
      element("thead", {}, element("tr", {}, ...head)),
      body,
    ),
  ];
}

function iterationRow(value, place) {
  const cells = AT_ITERATION.map((key) => element("td", {}, numberText(value[key][place])));
  return element("tr", {}, element("th", { scope: "row" }, value.name), ...cells);
}
