// What a value is computed from, and what that gives: each with a small picture and its numbers.

import { valueChip } from "./chips.js";
import { element } from "./dom.js";
import { smallPicture } from "./picture.js";
import { isSingle } from "./statistics_table.js";
import { countText, numberText, shapeText } from "./words.js";

const MOST_ROWS = 8;

/**
 * @param {import("./chips.js").Page} page
 * @param {number} id
 * @returns {HTMLElement}
 */
export function operandRows(page, id) {
  const { reads } = page.model.values[id];
  const rest = reads.length - MOST_ROWS;
  return element(
    "div",
    { class: "operands" },
    ...reads.slice(0, MOST_ROWS).map((one) => operandRow(page, one, "")),
    rest > 0 && element("p", { class: "muted" }, `and ${countText(rest)} more`),
    operandRow(page, id, "gives "),
  );
}

function operandRow(page, id, word) {
  const value = page.model.values[id];
  return element(
    "div",
    { class: "operand" },
    element("span", {}, word, valueChip(page, id)),
    element("span", { class: "small-picture" }, value.picture && smallPicture(value.picture, value.name)),
    element("span", { class: "muted" }, numbersText(value)),
  );
}

/** `−0.31 … 2.4`, or the number that it is; without numbers, the shape. */
function numbersText(value) {
  if (!value.stats) return shapeText(value.shape);
  if (isSingle(value)) return numberText(value.numbers?.[0] ?? value.stats.min);
  return `${numberText(value.stats.min)} … ${numberText(value.stats.max)}`;
}
