// A value beside its gradient: shape, bytes, statistics, the numbers themselves where they are few.

import { labelText, valueLabel } from "./chips.js";
import { element } from "./dom.js";
import { bytesText, countText, numberText, percentText, shapeText } from "./words.js";

const STATISTICS = ["min", "max", "mean", "std", "rms", "norm"];
const COUNTS = { zeros: "zeros", nan: "NaN", infinite: "infinite" };

/**
 * @param {import("./chips.js").Page} page
 * @param {number[]} ids a value, and its gradient where it has one
 * @returns {HTMLElement}
 */
export function statisticsTable(page, ids) {
  const values = ids.map((id) => page.model.values[id]);
  const rows = [
    statisticsRow(
      "shape",
      values.map((value) => shapeText(value.shape)),
    ),
    statisticsRow(
      "dtype",
      values.map((value) => value.dtype),
    ),
    statisticsRow(
      "bytes",
      values.map((value) => bytesText(value.nbytes)),
    ),
  ];
  if (values.some((value) => value.stats) && values.every(isSingle)) {
    rows.push(statisticsRow("value", values.map(singleText)));
  } else if (values.some((value) => value.stats)) {
    for (const name of STATISTICS) {
      rows.push(
        statisticsRow(
          name,
          values.map((value) => numberText(value.stats?.[name])),
        ),
      );
    }
    for (const [name, title] of Object.entries(COUNTS)) {
      rows.push(
        statisticsRow(
          title,
          values.map((value) => countOf(value.stats, name)),
        ),
      );
    }
  }
  const heads = ids.map((id) => {
    const word = page.model.values[id].of === null ? "value" : "gradient";
    const isShort = labelText(page.model.values[id]).length < 12;
    return element("th", { scope: "col" }, `${word} `, isShort && valueLabel(page, id));
  });
  const corner = element("td", {});
  return element(
    "table",
    { class: "statistics" },
    element("thead", {}, element("tr", {}, corner, ...heads)),
    element("tbody", {}, ...rows),
  );
}

function statisticsRow(title, texts) {
  const cells = texts.map((text) => {
    const counts = title !== "zeros" && /^[1-9].*%\)$/.test(text);
    const strange = counts || (title === "value" && /NaN|∞/.test(text));
    return element("td", { class: strange ? "strange" : null }, text);
  });
  return element("tr", {}, element("th", { scope: "row" }, title), ...cells);
}

/**
 * Whether a value has one element only, as far as is known.
 * @param {any} value
 * @returns {boolean}
 */
export function isSingle({ stats }) {
  return !stats || stats.count === 1;
}

function singleText({ numbers, stats }) {
  return numberText(numbers?.[0] ?? stats?.min);
}

/** `0`, `12 (3 %)`. */
function countOf(stats, name) {
  const count = stats?.[name];
  if (typeof count !== "number") return numberText(count);
  const share = percentText(count / (stats.count || 1), 3); // as the reasons of zeros say it
  return count ? `${countText(count)} (${share})` : "0";
}

/**
 * The elements themselves, in rows as long as the last axis.
 * @param {{numbers: any[], shape: (number|string)[], name: string}} value
 * @returns {HTMLElement}
 */
export function numbersTable(value) {
  const across = value.shape.length ? Number(value.shape.at(-1)) : 1;
  const rows = [];
  for (let place = 0; place < value.numbers.length; place += across) {
    const cells = value.numbers.slice(place, place + across);
    rows.push(element("tr", {}, ...cells.map((one) => element("td", {}, numberText(one)))));
  }
  const caption = element("caption", {}, labelText(value));
  const look = value.shape.length > 1 ? "numbers" : "numbers vector";
  return element("table", { class: look }, caption, element("tbody", {}, ...rows));
}
