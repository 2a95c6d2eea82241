// One line of the list of what is alive: a value, one without a name, or many small ones.

import { labelText, shortened, stepTitle, swatch, valueLabel } from "./chips.js";
import { element } from "./dom.js";
import { bytesText, countText } from "./words.js";

const LETTERS = 22;

/**
 * @param {import("./chips.js").Page} page
 * @param {any} row of `aliveAt`
 * @param {number} most bytes of the largest row
 * @returns {HTMLElement}
 */
export function aliveRow(page, row, most) {
  const part = element("span", { "data-kind": row.kind });
  part.style.width = `${(100 * row.nbytes) / most}%`;
  const bar = element("span", { class: "amount", "aria-hidden": "true" }, part);
  const bytes = element("span", { class: "bytes" }, bytesText(row.nbytes));
  const line = (name) => [element("span", { class: "label" }, swatch(row.kind), name), bar, bytes];
  const button = (attributes, name) =>
    element("li", {}, element("button", { type: "button", ...attributes }, ...line(name)));
  if (row.value !== null) {
    const attributes = {
      class: page.store.state.selected === row.value ? "row selected" : "row",
      "data-value-id": row.value,
      title: page.model.values[row.value].name,
      click: () => page.actions.reveal(row.value),
    };
    return button(attributes, valueLabel(page, row.value, LETTERS));
  }
  const unnamed = unnamedValue(page, row);
  const name = element("span", { class: "formula plain" }, unnamed?.text ?? row.label);
  if (!unnamed) return element("li", { class: "row" }, ...line(name));
  const go = () => page.actions.goTo(unnamed.step);
  return button({ class: "row", title: unnamed.told, click: go }, name);
}

/**
 * A value without a name by the step during which it is made: `step 5: scores`; null for sums.
 * @param {import("./chips.js").Page} page
 * @param {any} row of `aliveAt`
 * @returns {{step: number, text: string, told: string}|null}
 */
export function unnamedValue(page, { first, label, isRest }) {
  const { model } = page;
  if (isRest || !first) return null;
  const step = model.stepAt(first);
  const id = model.valueOfStep(step);
  const begin = `step ${countText(step)}`;
  const text = id === null ? begin : `${begin}: `;
  const name = id === null ? "" : shortened(labelText(model.values[id]), LETTERS - text.length);
  const told = `${label}, a value without a name, made in ${begin}, ${stepTitle(page, step)}`;
  return { step, text: text + name, told };
}
