// What a loop does at one iteration: a slider over t, in the order in which the loop goes, and the
// numbers of each of its values there.

import { element, scrolled } from "./dom.js";
import { countText, numberText } from "./words.js";

const AT_ITERATION = ["min", "max", "mean", "norm"];
const chosenIterations = new Map(); // the first result of a loop -> the place of its iteration

/**
 * Nothing where the page has no numbers of the iterations.
 * @param {import("./chips.js").Page} page
 * @param {{results: number[]}} loop of a value
 * @returns {HTMLElement[]}
 */
export function iterationsContent(page, { results, reverse, length }) {
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
  const show = (turn) => {
    const place = reverse ? at.length - 1 - turn : turn;
    chosenIterations.set(results[0], turn);
    slider.value = String(turn);
    const told = `t = ${countText(at[place] + 1)}`;
    const order = reverse ? orderText(at[place], length) : "";
    output.textContent = `${told} (slice ${countText(at[place])})${order}`;
    slider.setAttribute("aria-valuetext", told);
    body.replaceChildren(...values.map((value) => iterationRow(value, place)));
  };
  show(Math.min(chosenIterations.get(results[0]) ?? 0, at.length - 1));
  const head = ["at t", ...AT_ITERATION].map((text) => element("th", { scope: "col" }, text));
  return [
    element("div", { class: "iterations" }, slider, output),
    scrolled(
      element(
        "table",
        { class: "statistics results at-iteration" },
        element("thead", {}, element("tr", {}, ...head)),
        body,
      ),
    ),
  ];
}

/** `, iteration 1 of 12` of the last slice, with which a loop begins that goes back. */
function orderText(slice, length) {
  if (typeof length !== "number") return "";
  return `, iteration ${countText(length - slice)} of ${countText(length)}`;
}

function iterationRow(value, place) {
  const cells = AT_ITERATION.map((key) => element("td", {}, numberText(value[key][place])));
  return element("tr", {}, element("th", { scope: "row" }, value.name), ...cells);
}
