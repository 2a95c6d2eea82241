// Buttons that stand for a value or a scope: they go there and are marked when it is selected.

import { element } from "./dom.js";
import { inlineLatex, mathematics } from "./mathematics.js";
import { countText, kindText, typeText } from "./words.js";

/**
 * @typedef {Object} Page what every view is given
 * @property {any} data
 * @property {import("./model.js").Model} model
 * @property {import("./store.js").Store} store
 * @property {import("./scopes.js").Scopes} scopes
 * @property {import("./actions.js").Actions} actions
 * @property {import("./budgets.js").Budgets|null} budgets
 */

const WORD = /\p{L}{3}|[._]/u; // in names that are words rather than symbols
const MOST_SYMBOLS = 20;
const MOST_WRITTEN = 2; // names in the title of a step
const MOST_MAKERS = 4; // steps that are listed of those that make a value

/**
 * The name of a value: symbols as mathematics, words as text, of which the end is shown where there
 * is room for so many letters only.
 * @param {Page} page
 * @param {number} id
 * @param {number} [most] letters
 * @returns {HTMLElement}
 */
export function valueLabel(page, id, most = Infinity) {
  const value = page.model.values[id];
  const text = labelText(value);
  if (WORD.test(text) || text.length > MOST_SYMBOLS)
    return element("span", { class: "formula plain" }, shortened(text, most));
  const formula = mathematics(inlineLatex(value.latex), text);
  formula.setAttribute("aria-hidden", "true");
  const spoken = element("span", { class: "out-of-sight" }, value.name);
  return element("span", { class: "spoken-formula" }, spoken, formula);
}

/**
 * The last parts of a path that fit: `…attention.Wqkv`.
 * @param {string} text
 * @param {number} most letters
 * @returns {string}
 */
export function shortened(text, most) {
  if (text.length <= most) return text;
  const dots = [...text.matchAll(/\./g)].map((match) => match.index);
  const cut = dots.find((place) => text.length - place <= most) ?? text.length - most;
  return `…${text.slice(cut + 1)}`;
}

/**
 * The name of a value as it stands in the drawing, without markup.
 * @param {any} value
 * @returns {string}
 */
export function labelText(value) {
  return typeof value.label === "string" ? value.label : value.name;
}

/**
 * @param {Page} page
 * @param {number} id
 * @returns {HTMLElement}
 */
export function valueChip(page, id) {
  const value = page.model.values[id];
  return element(
    "button",
    {
      class: "chip",
      type: "button",
      "data-value-id": id,
      title: `${value.name}: ${kindText(value.kind)}, ${typeText(value)}`,
      click: () => page.actions.reveal(id),
    },
    swatch(value.kind),
    valueLabel(page, id),
  );
}

/**
 * A small square in the colour of a kind.
 * @param {string} kind
 * @returns {HTMLElement}
 */
export function swatch(kind) {
  return element("span", { class: "swatch", "data-kind": kind, "aria-hidden": "true" });
}

/**
 * Chips for values; of many only the first, and how many more there are.
 * @param {Page} page
 * @param {number[]} ids
 * @param {number} [most]
 * @returns {HTMLElement}
 */
export function valueChips(page, ids, most = 18) {
  const rest = ids.length - most;
  return element(
    "div",
    { class: "chips" },
    ...ids.slice(0, most).map((id) => valueChip(page, id)),
    rest > 0 && element("span", { class: "muted" }, `and ${countText(rest)} more`),
  );
}

/**
 * A button that moves the cursor to a step.
 * @param {Page} page
 * @param {number} number
 * @param {string} [text]
 * @returns {HTMLElement}
 */
export function stepChip(page, number, text = `step ${countText(number)}`) {
  const title = stepTitle(page, number);
  const go = () => page.actions.goTo(number);
  return element("button", { class: "chip plain", type: "button", title, click: go }, text);
}

/**
 * A button with the mark that follows it, which never begins a line.
 * @param {Node} chip
 * @param {string} mark
 * @returns {HTMLElement}
 */
export function withMark(chip, mark) {
  return element("span", { class: "with-mark" }, chip, mark);
}

/**
 * The steps that make a value, of very many the first and the last: `step 8 and step 11 of 12`.
 * @param {Page} page
 * @param {number} id
 * @returns {(Node|string)[]}
 */
export function makerChips(page, id) {
  const { model } = page;
  const makers = model.makersOf(id);
  const some = makers.length > MOST_MAKERS ? [makers[0], makers.at(-1)] : makers;
  const between = some === makers ? " and " : ` and ${countText(makers.length - 2)} more to `;
  const chips = some.flatMap((number, place) => {
    const chip = stepChip(page, number);
    if (place < some.length - 2) return [withMark(chip, ","), " "];
    return place === some.length - 2 ? [chip, between] : [chip];
  });
  return [...chips, ` of ${countText(model.steps.length)}`];
}

/**
 * `∂J/∂h, part of ∂J/∂W₂ (backward of o)`: what a step makes, then what it does; "" where there is
 * no such step.
 * @param {Page} page
 * @param {number} number
 * @returns {string}
 */
export function stepTitle({ model }, number) {
  const step = model.step(number);
  if (!step) return "";
  const made = [
    step.writes.length ? namesText(model, step.writes) : "",
    step.adds.length ? `part of ${namesText(model, step.adds)}` : "",
  ].filter(Boolean);
  return made.length ? `${made.join(", ")} (${step.title})` : step.title;
}

/**
 * `steps 1 to 4 are one instruction` of the executor, or begin with one; "" where a step has its
 * own.
 * @param {Page} page
 * @param {number} number
 * @returns {string}
 */
export function oneText({ model }, number) {
  const [first, last] = model.together(number);
  if (first === last) return "";
  const word = last === first + 1 ? "and" : "to";
  const after = model.step(last + 1)?.instruction ?? model.data.memory.live.length;
  const verb = after > model.step(last).instruction + 1 ? "begin with" : "are";
  return `steps ${countText(first)} ${word} ${countText(last)} ${verb} one instruction`;
}

function namesText(model, ids) {
  const names = ids
    .slice(0, MOST_WRITTEN)
    .map((id) => shortened(labelText(model.values[id]), MOST_SYMBOLS));
  const rest = ids.length - names.length;
  return `${names.join(", ")}${rest > 0 ? ` +${countText(rest)} more` : ""}`;
}
