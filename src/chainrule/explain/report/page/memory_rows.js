// One line of the list of what is alive: a value, one without a name, or many small ones.

import { stepTitle, swatch, valueLabel } from "./chips.js";
import { element } from "./dom.js";
import { bytesText, countText } from "./words.js";

const LETTERS = 22;
const TOLD = new Map([
  ["workspace", "workspace: what a kernel needs in addition to its arrays while it runs"],
  ["padding", "padding: alignment, and gaps between arrays"],
]);

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
  if (!unnamed) return element("li", { class: "row", title: restTold(row) }, ...line(name));
  const go = () => page.actions.goTo(unnamed.step);
  return button({ class: "row", title: unnamed.told, click: go }, name);
}

/**
 * What a sum of bytes is, in more words.
 * @param {any} row of `aliveAt`
 * @returns {string}
 */
export function restTold({ kind, label }) {
  return TOLD.get(kind) ?? label;
}

/**
 * A value without a name: what it is, and the step during which it is made; null for sums.
 * @param {import("./chips.js").Page} page
 * @param {any} row of `aliveAt`
 * @returns {{step: number, text: string, told: string}|null}
 */
export function unnamedValue(page, { first, label, parts, isRest }) {
  const { model } = page;
  if (isRest || !first) return null;
  const step = model.stepAt(first);
  const inside = parts && ` (${parts})`;
  const told = `${label}${inside}, made in step ${countText(step)}, ${stepTitle(page, step)}`;
  return { step, text: label, told };
}
