// What a loop does at one iteration: a slider over t, in the order in which the loop goes, and the
// numbers of each of its values there; below a name that is clicked, its elements with their indices.

import { element, scrolled } from "./dom.js";
import { axesText, countText, numberText, shapeText } from "./words.js";

const AT_ITERATION = ["min", "max", "mean", "norm"];
const chosenIterations = new Map(); // the first result of a loop -> the place of its iteration
const openedValues = new Map(); // the first result of a loop -> the name of the value that is open

let isAsked = false; // whether to scroll to a loop once the value is drawn that comes out of it

/**
 * Shows what the loop computes that a value comes out of; with the elements of one name if given,
 * of a state those that an iteration leaves.
 * @param {import("./chips.js").Page} page
 * @param {number} id of its first result
 * @param {string} [name] of what it computes
 */
export function goToLoop({ model, store, actions }, id, name) {
  const listed = model.values[id].iterations?.values ?? [];
  const found = listed.find((one) => one.name === name || one.name === `${name} after`);
  if (found) openedValues.set(id, found.name);
  isAsked = true;
  store.set({ selected: null }); // so that the value that is selected already is drawn again
  actions.reveal(id);
}

/**
 * Whether the loop of what is drawn now was asked for; says so once.
 * @returns {boolean}
 */
export function isLoopAsked() {
  const was = isAsked;
  isAsked = false;
  return was;
}

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
  const elements = element("div", { class: "at-elements", "aria-live": "polite" });
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
    output.textContent = `${told}${orderText(at[place], length, reverse)}`;
    slider.setAttribute("aria-valuetext", told);
    const opened = openedValues.get(results[0]);
    const toggle = (name) => {
      openedValues.set(results[0], name === openedValues.get(results[0]) ? null : name);
      show(Number(slider.value));
      for (const button of body.querySelectorAll("button"))
        if (button.textContent === name) button.focus();
    };
    body.replaceChildren(...values.map((value) => iterationRow(value, place, opened, toggle)));
    const chosen = values.find(({ name }) => name === opened);
    elements.replaceChildren(...(chosen ? elementsAt(chosen, place, told) : [hint()]));
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
    elements,
  ];
}

function hint() {
  return element("p", { class: "muted" }, "Click a name to see its elements at this t.");
}

/** ` of 12`; of a loop that goes back, which begins with the last slice, `, iteration 1 of 12`. */
function orderText(slice, length, reverse) {
  if (typeof length !== "number") return "";
  if (!reverse) return ` of ${countText(length)}`;
  return `, iteration ${countText(length - slice)} of ${countText(length)}`;
}

function iterationRow(value, place, opened, toggle) {
  const cells = AT_ITERATION.map((key) => element("td", {}, numberText(value[key][place], 3)));
  const attributes = {
    type: "button",
    class: "quiet",
    "aria-expanded": String(value.name === opened),
    click: () => toggle(value.name),
  };
  const name = element("button", attributes, value.name);
  return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
}

/** The elements of a value in one iteration: rows as long as its last axis, under their indices. */
function elementsAt({ name, shape, shown, elements }, place, told) {
  const across = shape.at(-1) ?? 1;
  const count = shape.reduce((product, size) => product * size, 1);
  const zero = shown === count && shape.length > 1 ? zeroColumns(elements[place], across) : "";
  const axes = shape.length ? element("span", { class: "axes" }, ` ${axesText(shape.length)}`) : "";
  const title = element("h4", {}, `${name} at ${told}: ${shapeText(shape)}${zero}`, axes);
  if (!shown) return [title, element("p", { class: "muted" }, "It has too many elements to list.")];
  const columns = Array.from({ length: across }, (_, column) => countText(column));
  const rows = [];
  for (let first = 0; first < shown; first += across) {
    const cells = elements[place].slice(first, first + across);
    const row = cells.map((one) => element("td", {}, typeof one === "boolean" ? `${one}` : numberText(one, 3)));
    rows.push(element("tr", {}, element("th", { scope: "row" }, rowText(shape, first / across)), ...row));
  }
  const heads = [element("td", {}), ...columns.map((one) => element("th", { scope: "col" }, one))];
  const table = element(
    "table",
    { class: "numbers indexed" },
    shape.length > 0 && element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows),
  );
  const part = `The first ${countText(shown)} of ${countText(count)} elements.`;
  return [title, scrolled(table), shown < count && element("p", { class: "muted" }, part)].filter(Boolean);
}

/** `; columns 2, 5 are 0`. */
function zeroColumns(elements, across) {
  const isZero = new Array(across).fill(true);
  elements.forEach((one, place) => (isZero[place % across] &&= one === 0));
  const found = isZero.flatMap((zero, column) => (zero ? [countText(column)] : []));
  if (!found.length) return "";
  if (found.length === across) return "; all are 0";
  return found.length === 1 ? `; column ${found[0]} is 0` : `; columns ${found.join(", ")} are 0`;
}

/** The indices before the last one, of the row with this number: `3`; `0, 3`; of a vector none. */
function rowText(shape, number) {
  const found = [];
  for (const size of shape.slice(0, -1).reverse()) {
    found.unshift(countText(number % size));
    number = Math.floor(number / size);
  }
  return found.join(", ");
}
