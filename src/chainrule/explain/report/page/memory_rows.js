// One line of the list of what is alive: a value, one without a name, or many small ones.

import { stepChip, stepTitle, swatch, valueLabel, withMark } from "./chips.js";
import { element } from "./dom.js";
import { bytesText, countText } from "./words.js";

const LETTERS = 22;
const TOLD = new Map([
  ["workspace", "workspace: what a kernel needs in addition to its arrays while it runs"],
  ["padding", "padding: alignment, and gaps between arrays"],
]);

/**
 * @typedef {Object} Explained the sum of bytes that is explained below its row
 * @property {string|null} kind
 * @property {function(string): void} toggle
 */

/**
 * @param {import("./chips.js").Page} page
 * @param {any} row of `aliveAt`
 * @param {number} most bytes of the largest row
 * @param {Explained} explained
 * @returns {HTMLElement}
 */
export function aliveRow(page, row, most, explained) {
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
  if (!unnamed) {
    const isTold = explained.kind === row.kind;
    const click = () => explained.toggle(row.kind);
    const attributes = { class: "row", "aria-expanded": String(isTold), title: restTold(row) };
    const item = button({ ...attributes, click }, name);
    if (isTold) item.append(restNote(page, row));
    return item;
  }
  return button({ class: "row", title: unnamed.told, click: unnamed.go }, name);
}

/** What a sum of bytes is, and when it is largest. */
function restNote(page, row) {
  const told = element("p", { class: "muted" }, `${restTold(row)}.`);
  const nbytes = page.data.memory.rest[row.kind];
  if (!nbytes) return told;
  const largest = Math.max(...nbytes);
  const step = page.model.stepAt(nbytes.indexOf(largest));
  if (step) told.append(` At most ${bytesText(largest)}, at `, withMark(stepChip(page, step), "."));
  return told;
}

/**
 * What a sum of bytes is, in more words.
 * @param {any} row of `aliveAt`
 * @returns {string}
 */
export function restTold({ kind, label }) {
  return TOLD.get(kind) ?? `${label}: all that is smaller than what is listed`;
}

/**
 * A value without a name: what it is, and how to go to the value that it is inside of, or else to
 * the one of the step during which it is made; null for sums.
 * @param {import("./chips.js").Page} page
 * @param {any} row of `aliveAt`
 * @returns {{go: function(): void, text: string, told: string}|null}
 */
export function unnamedValue(page, row) {
  const { model } = page;
  const { label, parts, isRest, inside: around } = row;
  if (isRest || row.step === null) return null;
  const step = row.step + 1;
  const inside = parts && ` (${parts})`;
  const told = `${label}${inside}, made in step ${countText(step)}, ${stepTitle(page, step)}`;
  const value = around ?? model.valueOfStep(step);
  const go = () => (value === null ? page.actions.goTo(step) : page.actions.reveal(value, true, row));
  return { go, text: label, told };
}
