// The columns of the table of values: what a cell says, and by what it is sorted.

import { sourcePlace } from "./source_lines.js";
import { asNumber, bytesText, countText, kindText, numberText, shapeText } from "./words.js";

/**
 * @typedef {Object} Column
 * @property {string} key
 * @property {string} title
 * @property {boolean} number set to the right, and sorted from large to small at first
 * @property {function(any, number): string} text of a value and its id
 * @property {function(any, number): number|string|null} order
 */

/**
 * @param {import("./chips.js").Page} page
 * @returns {Column[]}
 */
export function tableColumns(page) {
  const { data, model } = page;
  const found = [
    textColumn("kind", "kind", (value) => kindText(value.kind)),
    textColumn("pass", "pass", (value) => value.pass),
    {
      ...textColumn("shape", "shape", (value) => shapeText(value.shape)),
      order: (value) => value.shape.reduce((size, one) => size * (Number(one) || 1), 1),
    },
    textColumn("dtype", "dtype", (value) => value.dtype),
    numberColumn("nbytes", "bytes", (value) => value.nbytes, bytesText),
  ];
  if (data.has_values) {
    for (const key of ["min", "max", "mean", "std", "norm"]) {
      found.push(numberColumn(key, key, (value) => value.stats?.[key], numberText));
    }
    found.push(numberColumn("zeros", "zeros", (value) => value.stats?.zeros, numberText));
    found.push(numberColumn("nan", "NaN", (value) => value.stats?.nan, numberText));
  }
  const step = (number) => (number && number !== Infinity ? countText(number) : "–");
  found.push(
    {
      ...numberColumn("made", "made at", (_, id) => model.madeBy[id], step),
      text: (_, id) => model.makersOf(id).map(countText).join(", ") || "–",
    },
    numberColumn("freed", "freed after", (_, id) => model.freedBy[id], step),
    textColumn("line", "line", (value) => sourcePlace(data, value.source)),
  );
  return found;
}

function textColumn(key, title, text) {
  return { key, title, number: false, text, order: text };
}

function numberColumn(key, title, read, spell) {
  const order = (value, id) => {
    const found = read(value, id);
    return found === Infinity ? found : asNumber(found);
  };
  return { key, title, number: true, text: (value, id) => spell(read(value, id)), order };
}

/**
 * Ids in the order of a column; values where nothing is known come last, either way.
 * @param {any[]} values
 * @param {number[]} ids
 * @param {Column} column
 * @param {boolean} falling
 * @returns {number[]}
 */
export function sortedBy(values, ids, column, falling) {
  const keys = new Map(ids.map((id) => [id, column.order(values[id], id)]));
  const sign = falling ? -1 : 1;
  const unknown = (key) => key === null || key === "" || Number.isNaN(key);
  return [...ids].sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (unknown(a) || unknown(b)) return Number(unknown(a)) - Number(unknown(b)) || one - other;
    if (a === b) return one - other;
    return (a < b ? -1 : 1) * sign;
  });
}
